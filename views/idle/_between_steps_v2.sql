-- one row per idle piece between two steps of a device
-- From the end of a step's window to the start of the device's next one, without ops that run there
-- outside every step, and without the time in which no request is open. SparseCores are left out.
with windows as (
    select window_key, run_id, device_id, start_ps, end_ps
    from _step_window_v1
    where core is distinct from 'sparsecore'
),

occupied as (
    select run_id, device_id, window_key, start_ps, end_ps from windows
    union all
    select run_id, device_id, null, start_ps, start_ps + duration_ps
    from busy_intervals
    where step is null
    union all
    select run_id, device_id, null, start_ps, end_ps from _no_request_v1
),

seen as (
    select
        *,
        max(end_ps) over (
            partition by run_id, device_id order by start_ps, window_key
            rows between unbounded preceding and 1 preceding
        ) as reached_ps,
        max(window_key) over (
            partition by run_id, device_id order by start_ps, window_key
            rows between unbounded preceding and 1 preceding
        ) as previous_key
    from occupied
)

select
    -- key of the window that follows
    w.window_key,
    -- start
    s.reached_ps as start_ps,
    -- end
    s.start_ps as end_ps
from seen as s
inner join windows as w on w.window_key = s.previous_key + 2 and w.device_id = s.device_id
where s.start_ps > s.reached_ps
