-- one row per step's window on a device of a pipeline
-- Idle time next to a step while the step is under way on peers: before the device's window
-- (filling) and after it (draining). An instant that lies in the span of both steps next to it drains
-- the earlier one. Before the first window of a device and after its last one no op is sought.
with windows as (
    select
        w.window_key, w.run_id, w.device_id, w.start_ps, w.end_ps,
        min(w.start_ps) over (partition by w.run_id, w.request, w.step, g.peer_group)
            as group_start_ps,
        max(w.end_ps) over (partition by w.run_id, w.request, w.step, g.peer_group)
            as group_end_ps
    from _step_window_v1 as w
    inner join _device_group_v1 as g on g.run_id = w.run_id and g.device_id = w.device_id
    where g.stages > 1
),

placed as (
    select
        *,
        lag(group_end_ps) over (partition by run_id, device_id order by window_key)
            as group_end_before_ps,
        lead(start_ps) over (partition by run_id, device_id order by window_key) as next_start_ps
    from windows
),

pieces as (
    select
        w.window_key,
        least(greatest(w.group_end_before_ps, b.start_ps), b.end_ps) - b.start_ps as drain_ps,
        greatest(b.end_ps - greatest(w.group_end_before_ps, w.group_start_ps, b.start_ps), 0)
            as fill_ps
    from _between_steps_v2 as b
    inner join placed as w on w.window_key = b.window_key
),

parts as (
    select window_key, fill_ps as part_ps from pieces
    union all
    select window_key - 2, drain_ps from pieces
    union all
    select window_key, start_ps - group_start_ps from placed where group_end_before_ps is null
    union all
    select window_key, group_end_ps - end_ps from placed where next_start_ps is null
)

select
    -- key of the window
    window_key,
    -- idle time in which the step was under way on peers, before the window and after it
    cast(sum(part_ps) as bigint) as fill_drain_ps
from parts
group by window_key
