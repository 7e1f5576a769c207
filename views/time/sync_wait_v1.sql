-- one row per run, device, request, step and axis that the device waited for
-- Time in barriers (barrier-cores) within a step's window, by the axis of the collective directly
-- after the barrier. It is not idle time: the device waits for other devices. All of it, also where
-- something else runs meanwhile, so the sum over axes is at least the sync_wait of device_time.
-- Barriers that touch are one wait, of the first one's axis. Steps without waits have no rows;
-- SparseCores are left out. In a run predicted over optical circuits, devices in a barrier may also
-- wait for circuits (table circuit_waits).
with arrivals as (
    select run_id, device_id, request, step, arrival_ps, min(axis) as axis
    from _collective_wire_v1
    where arrival_ps < start_ps
    group by run_id, device_id, request, step, arrival_ps
),

waits as (
    select
        w.run_id, w.device_id, w.request, w.step, w.phase,
        w.end_ps - w.start_ps as window_ps,
        b.start_ps,
        least(b.start_ps + b.duration_ps, w.end_ps) - b.start_ps as wait_ps
    from _step_window_v1 as w
    inner join busy_intervals as b
        on b.run_id = w.run_id and b.device_id = w.device_id
        and b.request is not distinct from w.request and b.step is not distinct from w.step
    where b.category = 'sync_wait' and w.core is distinct from 'sparsecore'
        and b.start_ps < w.end_ps
)

select
    -- run
    w.run_id,
    -- device that waits
    w.device_id,
    -- request; NULL without a marker
    w.request,
    -- forward pass within the request; in a run without markers the launch instance
    w.step,
    -- mesh axes of the collectives joined by +, or none, mixed or unclassified; NULL for barriers
    -- with no collective directly after
    a.axis,
    -- phase of the step
    min(w.phase) as phase,
    -- waits
    cast(count(*) as bigint) as wait_count,
    -- time in them
    cast(sum(w.wait_ps) as bigint) as sync_wait_ps,
    -- length of the step's window
    cast(min(w.window_ps) as bigint) as window_ps,
    -- sync_wait / window
    cast(sum(w.wait_ps) as double) / nullif(cast(min(w.window_ps) as double), 0) as sync_wait_ratio
from waits as w
left join arrivals as a
    on a.run_id = w.run_id and a.device_id = w.device_id
    and a.request is not distinct from w.request and a.step is not distinct from w.step
    and a.arrival_ps = w.start_ps
group by w.run_id, w.device_id, w.request, w.step, a.axis
