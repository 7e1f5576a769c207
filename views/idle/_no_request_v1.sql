-- one row per time between two steps of a device in which no request is open
-- Requests are open as _open_time_v1 says. Runs without markers of requests have no rows.
with windows as (
    select window_key, run_id, device_id, start_ps, end_ps
    from _step_window_v1
),

devices_seen as (
    select run_id, device_id from windows group by run_id, device_id
),

runs_marked as (
    select run_id from _open_time_v1 group by run_id
),

occupied as (
    select w.window_key, w.run_id, w.device_id, w.start_ps, w.end_ps
    from windows as w
    inner join runs_marked as r on r.run_id = w.run_id
    union all
    select null, d.run_id, d.device_id, r.start_ps, r.end_ps
    from _open_time_v1 as r
    inner join devices_seen as d on d.run_id = r.run_id
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
