-- one row per run, group of clocks and stretch of time in which a request is open
-- A request is open from the start of its first marker to the later of the end of its last one and
-- the end of its last step on any device, on the clocks that can be compared: each group of them (_apart_clock_v1)
-- counts from its own markers to its own devices' ends. A marker of a whole request counts by itself, since one
-- around warm-up steps has the number of another request. A server's request is open from its first step's
-- start to the end of its last one. Requests that overlap or touch are one stretch. Runs without markers of
-- requests have no rows, nor has a group without its own.
with ran as (
    select
        s.run_id, s.request, d.host, coalesce(a.clock_group, '') as clock_group,
        max(s.start_ps + s.duration_ps) as end_ps
    from device_steps as s
    left join devices as d on d.run_id = s.run_id and d.device_id = s.device_id
    left join _apart_clock_v1 as a on a.run_id = s.run_id and a.device_id = s.device_id
    where s.request is not null
    group by s.run_id, s.request, d.host, coalesce(a.clock_group, '')
),

-- Where a host has clocks of several groups, as processes of one machine, the group of its devices that
-- ran the request.
ran_by as (
    select
        run_id, request, host,
        case when min(clock_group) = max(clock_group) then min(clock_group) end as clock_group
    from ran
    group by run_id, request, host
),

-- A step of a server is of many requests, so no step of a device names one: a request counts on all clocks of
-- its machine, whose processes share the machine's time.
machines as (
    select a.run_id, d.host, a.clock_group
    from _apart_clock_v1 as a
    inner join devices as d on d.run_id = a.run_id and d.device_id = a.device_id
    group by a.run_id, d.host, a.clock_group
),

marks as (
    select
        p.run_id, p.request, p.start_ps, p.start_ps + p.duration_ps as end_ps,
        case when p.phase = 'request' then p.start_ps end as alone,
        coalesce(h.clock_group, r.clock_group, m.clock_group, '') as clock_group
    from phases as p
    left join _apart_clock_v1 as h on h.run_id = p.run_id and h.host = p.host
    left join ran_by as r on r.run_id = h.run_id and r.request = p.request and r.host = h.host
    left join machines as m
        on m.run_id = h.run_id and m.host = h.host and p.source = 'server'
    where p.source in ('marker', 'server') and p.request is not null
),

marked as (
    select
        run_id, clock_group, request, alone, min(start_ps) as start_ps, max(end_ps) as end_ps
    from marks
    group by run_id, clock_group, request, alone
),

stepped as (
    select run_id, clock_group, request, max(end_ps) as end_ps
    from ran
    group by run_id, clock_group, request
),

requests as (
    select
        m.run_id, m.clock_group, m.start_ps,
        greatest(m.end_ps, coalesce(s.end_ps, m.end_ps)) as end_ps
    from marked as m
    left join stepped as s
        on s.run_id = m.run_id and s.clock_group = m.clock_group and s.request = m.request
        and m.alone is null
),

reached as (
    select
        *,
        max(end_ps) over (
            partition by run_id, clock_group order by start_ps, end_ps
            rows between unbounded preceding and 1 preceding
        ) as reached_ps
    from requests
),

begun as (
    select
        *,
        sum(case when reached_ps is null or start_ps > reached_ps then 1 else 0 end) over (
            partition by run_id, clock_group order by start_ps, end_ps
            rows between unbounded preceding and current row
        ) as stretch
    from reached
)

select
    -- run
    run_id,
    -- group of clocks; '' in a run whose clocks can all be compared
    clock_group,
    -- start of the first request in it
    min(start_ps) as start_ps,
    -- end of the last one
    max(end_ps) as end_ps
from begun
group by run_id, clock_group, stretch
