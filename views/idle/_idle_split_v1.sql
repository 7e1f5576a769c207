-- one row per idle gap of a device, within a step or between two, of any length
-- Each instant of a gap within a step has one cause: imbalance: a peer of the same stage is busy;
-- pipeline: only peers of other stages are; device: no peer is, and a launch of the step is open on
-- the device; host: no peer is, and no launch is open; unattributed: devices are busy that may or
-- may not be peers, or the device has no launches. In bubble, gaps under 100 ns are of cause device
-- whole.
with within as (
    select
        w.window_key, w.run_id, w.device_id, w.request, w.step, w.phase,
        c.gap_start_ps as start_ps,
        c.gap_end_ps - c.gap_start_ps as duration_ps,
        case when g.knows_peers then 1 else 0 end as knows_peers,
        case when g.has_launches then 1 else 0 end as has_launches,
        c.open_idle_ps, c.group_idle_ps,
        -- with one stage no device of it is busy where no device of the group is
        case when g.stages > 1 then c.stage_idle_ps else c.group_idle_ps end as stage_idle_ps
    from _idle_cause_v1 as c
    inner join _step_window_v1 as w on w.window_key = c.window_key
    inner join _device_group_v1 as g on g.run_id = w.run_id and g.device_id = w.device_id
),

split as (
    select
        window_key, run_id, device_id, request, step, phase, start_ps, duration_ps,
        has_launches * open_idle_ps as device_ps,
        has_launches * (group_idle_ps - open_idle_ps) as host_ps,
        knows_peers * (duration_ps - stage_idle_ps) as imbalance_ps,
        knows_peers * (stage_idle_ps - group_idle_ps) as pipeline_ps,
        0 as between_steps_ps
    from within
    union all
    select
        w.window_key, w.run_id, w.device_id, w.request, w.step, w.phase, b.start_ps,
        b.end_ps - b.start_ps, 0, 0, 0, 0, b.end_ps - b.start_ps
    from _between_steps_v1 as b
    inner join _step_window_v1 as w on w.window_key = b.window_key
)

select
    -- key of the window, or of the one that follows
    window_key,
    -- run
    run_id,
    -- device
    device_id,
    -- request
    request,
    -- forward pass within the request
    step,
    -- phase of the step
    phase,
    -- start of the gap
    start_ps,
    -- length
    cast(duration_ps as bigint) as duration_ps,
    -- no peer busy, a launch of the step open
    cast(device_ps as bigint) as device_ps,
    -- no peer busy, no launch of the step open
    cast(host_ps as bigint) as host_ps,
    -- a peer of the same stage busy
    cast(imbalance_ps as bigint) as imbalance_ps,
    -- only peers of other stages busy
    cast(pipeline_ps as bigint) as pipeline_ps,
    -- between two steps
    cast(between_steps_ps as bigint) as between_steps_ps,
    -- none of these causes can be determined
    cast(
        duration_ps - device_ps - host_ps - imbalance_ps - pipeline_ps - between_steps_ps as bigint
    ) as unattributed_ps
from split
