-- one row per run and stretch of time in which a request is open
-- A request is open from the start of its first marker to the later of the end of its last one and
-- the end of its last step on any device. A marker of a whole request counts by itself, since one
-- around warm-up steps has the number of another request. A server's request is open from its first step's
-- start to the end of its last one. Requests that overlap or touch are one stretch. Runs without markers of
-- requests have no rows.
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
    select run_id, request, max(start_ps + duration_ps) as end_ps
    from device_steps
    where request is not null
    group by run_id, request
),

requests as (
    select
        m.run_id, m.start_ps, greatest(m.end_ps, coalesce(s.end_ps, m.end_ps)) as end_ps
    from marked as m
    left join stepped as s
        on s.run_id = m.run_id and s.request = m.request and m.alone is null
),

reached as (
    select
        *,
        max(end_ps) over (
            partition by run_id order by start_ps, end_ps
            rows between unbounded preceding and 1 preceding
        ) as reached_ps
    from requests
),

begun as (
    select
        *,
        sum(case when reached_ps is null or start_ps > reached_ps then 1 else 0 end) over (
            partition by run_id order by start_ps, end_ps
            rows between unbounded preceding and current row
        ) as stretch
    from reached
)

select
    -- run
    run_id,
    -- start of the first request in it
    min(start_ps) as start_ps,
    -- end of the last one
    max(end_ps) as end_ps
from begun
group by run_id, stretch
