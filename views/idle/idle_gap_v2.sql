-- one row per run, device and idle gap of 100 ns or more
-- A gap within a step is a time in its window when nothing of the step runs on the device (the idle
-- of device_time). Each instant of it has one cause, so the parts add up to the duration:
-- imbalance_ps (a peer of the same stage is busy), pipeline_ps (only peers of other stages are),
-- device_ps (no peer is, and a launch of the step is open on the device), host_ps (no peer is, and
-- no launch is open), unattributed_ps (devices are busy that may or may not be peers, or the device
-- has no launches). Peers have equal coordinates on the data axes (dp, data, fsdp), the stage is
-- the coordinate on pp, busy is not being in such a gap of the same step; only traced devices are
-- seen. A device whose identity was deduced has no peers. A gap between two steps is
-- between_steps_ps whole and names the step that follows; ops that run there outside every step cut
-- it, and so does time in which no request is open, which is in no gap. Shorter gaps are in bubble
-- as cause device, or between_steps. SparseCores are left out.
with idle as (
    select
        run_id, device_id, request, step, phase, start_ps, duration_ps, device_ps, host_ps,
        imbalance_ps, pipeline_ps, unattributed_ps, 0 as between_steps_ps
    from _long_gap_v1
    union all
    select
        w.run_id, w.device_id, w.request, w.step, w.phase, b.start_ps, b.end_ps - b.start_ps,
        0, 0, 0, 0, 0, b.end_ps - b.start_ps
    from _between_steps_v2 as b
    inner join _step_window_v1 as w on w.window_key = b.window_key
    where b.end_ps - b.start_ps >= 100000
),

gaps as (
    select
        *,
        greatest(
            imbalance_ps, pipeline_ps, device_ps, host_ps, unattributed_ps, between_steps_ps
        ) as most_ps
    from idle
)

select
    -- run
    run_id,
    -- device
    device_id,
    -- request; of a gap between steps, the following step's
    request,
    -- forward pass within the request; of a gap between steps, the following one
    step,
    -- phase of that step
    phase,
    -- start of the gap
    start_ps,
    -- length of the gap
    duration_ps,
    -- cause of most of the gap: imbalance, pipeline, device, host, unattributed or between_steps;
    -- of equal ones the first in this order
    case
        when imbalance_ps = most_ps then 'imbalance'
        when pipeline_ps = most_ps then 'pipeline'
        when device_ps = most_ps then 'device'
        when host_ps = most_ps then 'host'
        when unattributed_ps = most_ps then 'unattributed'
        else 'between_steps'
    end as cause,
    -- no peer busy, a launch of the step open on the device
    device_ps,
    -- no peer busy, no launch of the step open on the device
    host_ps,
    -- a peer of the same stage busy
    imbalance_ps,
    -- only peers of other stages busy
    pipeline_ps,
    -- the cause is not known
    unattributed_ps,
    -- between two steps
    between_steps_ps
from gaps
