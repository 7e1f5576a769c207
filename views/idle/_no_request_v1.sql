-- one row per time between two steps of a device in which no request is open
-- Requests are open as _open_time_v1 says, on the clocks that can be compared with the device's. Without
-- markers of requests on these there are no rows.
with windows as (
    select window_key, run_id, device_id, start_ps, end_ps
    from _step_window_v1
),

devices_seen as (
    select run_id, device_id from windows group by run_id, device_id
),

opened as (
    select d.run_id, d.device_id, r.start_ps, r.end_ps
    from devices_seen as d
    left join _apart_clock_v1 as a on a.run_id = d.run_id and a.device_id = d.device_id
    inner join _open_time_v1 as r
        on r.run_id = d.run_id and r.clock_group = coalesce(a.clock_group, '')
),

devices_marked as (
    select run_id, device_id from opened group by run_id, device_id
),

occupied as (
    select w.window_key, w.run_id, w.device_id, w.start_ps, w.end_ps
    from windows as w
    inner join devices_marked as d on d.run_id = w.run_id and d.device_id = w.device_id
    union all
    select null, run_id, device_id, start_ps, end_ps
    from opened
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
    -- run
    w.run_id,
    -- device
    w.device_id,
    -- start
    s.reached_ps as start_ps,
    -- end
    s.start_ps as end_ps
from seen as s
inner join windows as w
    on w.window_key = s.previous_key + 2 and w.device_id = s.device_id
where s.start_ps > s.reached_ps
