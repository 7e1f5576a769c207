-- one row per step's window on a device and level
-- Level 0 is the peer group; level 1, where the pipeline has stages, the devices of the own stage.
-- SparseCores are left out.
with windows as (
    select
        w.window_key, w.run_id, w.device_id, w.request, w.step, g.peer_group, g.stage, g.stages,
        t.long_start_ps, t.long_end_ps
    from _step_window_v1 as w
    inner join _device_group_v1 as g on g.run_id = w.run_id and g.device_id = w.device_id
    left join _step_rest_v1 as t
        on t.run_id = w.run_id and t.device_id = w.device_id
        and t.request is not distinct from w.request and t.step is not distinct from w.step
),

groups as (
    select
        run_id, request, step, peer_group,
        min(window_key) as key,
        min(long_start_ps) as long_start_ps,
        max(long_end_ps) as long_end_ps
    from windows
    group by run_id, request, step, peer_group
),

-- With one stage, the group is enough.
stages as (
    select
        run_id, request, step, peer_group, stage,
        min(window_key) as key,
        min(long_start_ps) as long_start_ps,
        max(long_end_ps) as long_end_ps
    from windows
    where stages > 1
    group by run_id, request, step, peer_group, stage
),

levels as (
    select
        w.window_key as row_key, g.key, case when w.stages > 1 then 1 else 0 end as staged,
        w.run_id, w.device_id, w.request, w.step, g.long_start_ps, g.long_end_ps
    from windows as w
    inner join groups as g
        on g.run_id = w.run_id and g.request is not distinct from w.request
        and g.step is not distinct from w.step and g.peer_group = w.peer_group
    union all
    select
        w.window_key + 1, s.key + 1, 1, w.run_id, w.device_id, w.request, w.step, s.long_start_ps,
        s.long_end_ps
    from windows as w
    inner join stages as s
        on s.run_id = w.run_id and s.request is not distinct from w.request
        and s.step is not distinct from w.step and s.peer_group = w.peer_group
        and s.stage = w.stage
)

select
    -- key of window and level
    row_key,
    -- key of the level's devices in the step
    key,
    -- the window has both levels: 1, else 0
    staged,
    -- run
    run_id,
    -- device
    device_id,
    -- request; NULL without a marker
    request,
    -- forward pass within the request; in a run without markers the launch instance
    step,
    -- start of the first long gap (100 ns or more) of the level's devices; NULL without one
    long_start_ps,
    -- end of the last one
    long_end_ps
from levels
