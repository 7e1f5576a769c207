-- one row per run, request and step of a marked request
-- Latency of each step: from the end of the previous step to its own end. A step ends with its last
-- op over all devices (control ops aside); the first step's (prefill) latency runs from its
-- marker's start on the host. A step whose ops are missing from the trace has no end, and neither
-- it nor the next has a latency; nor has a step where it is ambiguous how far clocks are apart (table clocks).
-- Where no collective connects the clocks, each group of clocks counts from its own first marker of
-- the request (_request_clock_v1): a step ends with the last op of the groups that have that marker. Warm-up
-- requests and requests during which a host compiled are left out: run_summary counts them.
with timed as (
    select * from _step_clock_v1
),

requests as (
    select
        run_id, request, clock_group,
        min(marker_start_ps) as start_ps,
        max(marker_end_ps) as end_ps
    from timed
    group by run_id, request, clock_group
),

-- By overlap, not by number: a warm-up may have the number of a request that counts. There are few
-- warm-ups and compiles, so the join stays small. Where clocks are of several groups, within one.
excluded as (
    select r.run_id, r.request
    from requests as r
    inner join _unmeasured_time_v1 as u
        on u.run_id = r.run_id and u.start_ps < r.end_ps and u.end_ps > r.start_ps
        and coalesce(u.clock_group = r.clock_group, true)
    group by r.run_id, r.request
),

moved as (
    select
        s.run_id, s.request, s.step, s.phase,
        s.marker_start_ps + c.later_ps as marker_start_ps,
        case when a.run_id is null then s.first_op_ps + c.later_ps end as first_op_ps,
        case when a.run_id is null then s.end_ps + c.later_ps end as end_ps
    from timed as s
    left join _request_clock_v1 as c
        on c.run_id = s.run_id and c.request = s.request and c.clock_group = s.clock_group
    left join _ambiguous_run_v1 as a on a.run_id = s.run_id
),

steps as (
    select
        run_id, request, step,
        min(phase) as phase,
        min(marker_start_ps) as marker_start_ps,
        min(first_op_ps) as first_op_ps,
        max(end_ps) as end_ps
    from moved
    group by run_id, request, step
    having count(phase) > 0
),

placed as (
    select
        s.run_id, s.request, s.step, s.phase, s.marker_start_ps, s.first_op_ps, s.end_ps,
        lag(s.end_ps) over (partition by s.run_id, s.request order by s.step) as previous_end_ps
    from steps as s
    left join excluded as x on x.run_id = s.run_id and x.request = s.request
    where x.run_id is null
),

since as (
    select *, case when step = 0 then marker_start_ps else previous_end_ps end as since_ps
    from placed
)

select
    -- run
    run_id,
    -- request
    request,
    -- forward pass within the request: 0 is prefill, k the k-th decode
    step,
    -- prefill, decode or mixed
    phase,
    -- start of the marker on the host, the earliest over hosts
    marker_start_ps as start_ps,
    -- start of the first op over all devices
    first_op_ps,
    -- end of the last op over all devices
    end_ps,
    -- from the end of the previous step to the end of this one; the first from its marker's start; NULL
    -- where the trace has it end earlier
    cast(case when end_ps >= since_ps then end_ps - since_ps end as double) / 1e12 as latency_s
from since
