-- one row per run, request and step of a marked request
-- Latency of each step: from the end of the step before to its own end. A step ends with its last
-- op over all devices (control ops aside); the first step's (prefill) latency runs from its
-- marker's start on the host. A step whose ops are missing from the trace has no end, and neither
-- it nor the next has a latency; nor has a step of devices and hosts whose clocks cannot be compared
-- (table clocks). Warm-up requests and requests during which a host compiled are left out:
-- run_summary counts them.
with markers as (
    select
        run_id, request, step,
        min(phase) as phase,
        min(start_ps) as marker_start_ps,
        max(start_ps + duration_ps) as marker_end_ps
    from phases
    where source = 'marker' and phase in ('prefill', 'decode', 'mixed')
        and request is not null and step is not null
    group by run_id, request, step
),

requests as (
    select
        run_id, request,
        min(marker_start_ps) as start_ps,
        max(marker_end_ps) as end_ps
    from markers
    group by run_id, request
),

unmeasured as (
    select run_id, start_ps, start_ps + duration_ps as end_ps
    from phases
    where phase = 'warmup'
    union all
    select run_id, start_ps, end_ps
    from _compile_v1
),

-- By overlap, not by number: a warm-up may have the number of a request that counts. There are few
-- warm-ups and compiles, so the join stays small.
excluded as (
    select r.run_id, r.request
    from requests as r
    inner join unmeasured as u
        on u.run_id = r.run_id and u.start_ps < r.end_ps and u.end_ps > r.start_ps
    group by r.run_id, r.request
),

ends as (
    select
        s.run_id, s.request, s.step,
        min(s.pass_start_ps) as first_op_ps,
        max(s.pass_end_ps) as end_ps
    from device_steps as s
    left join _clocks_apart_v1 as a on a.run_id = s.run_id
    where s.pass_end_ps is not null and s.request is not null and s.step is not null
        and a.run_id is null
    group by s.run_id, s.request, s.step
),

placed as (
    select
        m.run_id, m.request, m.step, m.phase, m.marker_start_ps, e.first_op_ps, e.end_ps,
        lag(e.end_ps) over (partition by m.run_id, m.request order by m.step) as previous_end_ps
    from markers as m
    left join ends as e on e.run_id = m.run_id and e.request = m.request and e.step = m.step
    left join excluded as x on x.run_id = m.run_id and x.request = m.request
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
    -- from the end of the step before to the end of this one; the first from its marker's start; NULL
    -- where the trace has it end earlier
    cast(case when end_ps >= since_ps then end_ps - since_ps end as double) / 1e12 as latency_s
from since
