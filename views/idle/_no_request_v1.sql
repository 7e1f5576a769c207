-- one row per time between two steps of a device in which no request is open
-- A request is open from the start of its first marker to the later of the end of its last one and
-- the end of its last step on any device. A marker of a whole request counts by itself, since one
-- around warm-up steps has the number of another request. A server's request is open from its first step's
-- start to the end of its last one. Runs without markers of requests have no
-- rows.
with marks as (
    select
        run_id, request, start_ps, start_ps + duration_ps as end_ps,
        case when phase = 'request' then start_ps end as alone
    from phases
    where source in ('marker', 'server') and request is not null
),

marked as (
    select run_id, request, alone, min(start_ps) as start_ps, max(end_ps) as end_ps
    from marks
    group by run_id, request, alone
),

stepped as (
    select run_id, request, max(end_ps) as end_ps
    from _step_window_v1
    group by run_id, request
),

requests as (
    select
        m.run_id, m.start_ps, greatest(m.end_ps, coalesce(s.end_ps, m.end_ps)) as end_ps
    from marked as m
    left join stepped as s
        on s.run_id = m.run_id and s.request = m.request and m.alone is null
),

devices_seen as (
    select run_id, device_id from _step_window_v1 group by run_id, device_id
),

runs_marked as (
    select run_id from marked group by run_id
),

occupied as (
    select w.window_key, w.run_id, w.device_id, w.start_ps, w.end_ps
    from _step_window_v1 as w
    inner join runs_marked as r on r.run_id = w.run_id
    union all
    select null, d.run_id, d.device_id, r.start_ps, r.end_ps
    from requests as r
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
inner join _step_window_v1 as w
    on w.window_key = s.previous_key + 2 and w.device_id = s.device_id
where s.start_ps > s.reached_ps
