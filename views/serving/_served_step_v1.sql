-- one row per run, host and step of a server
-- A step of a server as the host marked it (phases, source = server), with its devices: those of the
-- host, SparseCores left out. A step whose ops the trace lacks has no device times. Periods and shares are those
-- of device_time_v1, found in one sort of the windows of servers, of which there may be many.
with devices_of as (
    select run_id, device_id, host, coalesce(inferred, false) or coalesce(core, '') = 'cpu' as virtual
    from devices
    where core is distinct from 'sparsecore' and traced
),

steps as (
    select
        run_id, host, step, phase, requests, tokens, least_prompt_tokens, most_prompt_tokens, start_ps
    from phases
    where source = 'server' and request is null
),

served as (
    select run_id from steps group by run_id
),

-- The parts of a gap add up to it.
late as (
    select l.run_id, d.host, l.step, sum(g.self_ps) as host_gap_ps
    from host_gaps as g
    inner join launches as l
        on l.run_id = g.run_id and l.device_id = g.device_id and l.launch = g.launch
    inner join devices_of as d on d.run_id = g.run_id and d.device_id = g.device_id
    where l.request is null
    group by l.run_id, d.host, l.step
),

windows as (
    select
        s.run_id, coalesce(a.clock_group, '') as clock_group, s.device_id, s.request, s.step,
        s.start_ps, s.start_ps + s.duration_ps as end_ps,
        coalesce(s.pass_end_ps, s.start_ps + s.duration_ps) as step_end_ps, s.compute_ps,
        s.collective_ps - s.overlapped_ps as exposed_ps, s.communicating_ps
    from device_steps as s
    inner join served as v on v.run_id = s.run_id
    left join _apart_clock_v1 as a on a.run_id = s.run_id and a.device_id = s.device_id
),

kernels as (
    select run_id
    from windows
    group by run_id
    having max(communicating_ps) > 0
),

-- Runs, and their clocks that can be compared, with a time between the first step and the last one in
-- which no request is open.
spans as (
    select run_id, clock_group, min(end_ps) as first_end_ps, max(start_ps) as last_start_ps
    from windows
    group by run_id, clock_group
),

opened as (
    select
        run_id, clock_group, count(*) as stretches, min(start_ps) as start_ps,
        max(end_ps) as end_ps
    from _open_time_v1
    group by run_id, clock_group
),

unknown as (
    select d.run_id, d.host
    from devices_of as d
    inner join _unknown_open_time_v1 as u on u.run_id = d.run_id and u.device_id = d.device_id
    group by d.run_id, d.host
),

resting as (
    select o.run_id, o.clock_group
    from opened as o
    inner join spans as s on s.run_id = o.run_id and s.clock_group = o.clock_group
    where o.stretches > 1 or o.start_ps > s.first_end_ps or o.end_ps < s.last_start_ps
),

occupied as (
    select w.run_id, w.device_id, w.start_ps, w.end_ps, w.end_ps as window_end_ps
    from windows as w
    inner join resting as r on r.run_id = w.run_id and r.clock_group = w.clock_group
    union all
    select d.run_id, d.device_id, o.start_ps, o.end_ps, null
    from _open_time_v1 as o
    inner join resting as r on r.run_id = o.run_id and r.clock_group = o.clock_group
    inner join devices_of as d on d.run_id = o.run_id
    left join _apart_clock_v1 as a on a.run_id = d.run_id and a.device_id = d.device_id
    where coalesce(a.clock_group, '') = o.clock_group
),

reached as (
    select
        run_id, device_id, start_ps,
        max(window_end_ps) over (
            partition by run_id, device_id order by start_ps, end_ps
            rows between unbounded preceding and 1 preceding
        ) as before_ps,
        max(end_ps) over (
            partition by run_id, device_id order by start_ps, end_ps
            rows between unbounded preceding and 1 preceding
        ) as reached_ps
    from occupied
),

-- By the end of the device's window before.
outside as (
    select run_id, device_id, before_ps, sum(start_ps - reached_ps) as outside_ps
    from reached
    where start_ps > reached_ps
    group by run_id, device_id, before_ps
),

-- Windows of a device do not overlap: each is cut where the next one starts.
followed as (
    select
        *,
        lag(end_ps) over (
            partition by run_id, device_id order by start_ps, end_ps, request, step
        ) as before_ps
    from windows
),

ran as (
    select
        w.run_id, d.host, w.step,
        count(*) as devices,
        max(case when d.virtual then 1 else 0 end) as virtual,
        min(w.start_ps) as first_op_ps,
        max(w.step_end_ps) as end_ps,
        sum(w.end_ps - coalesce(w.before_ps, w.start_ps) - coalesce(o.outside_ps, 0)) as period_ps,
        sum(w.compute_ps) as compute_ps,
        sum(w.exposed_ps) as exposed_ps
    from followed as w
    inner join devices_of as d on d.run_id = w.run_id and d.device_id = w.device_id
    left join outside as o
        on o.run_id = w.run_id and o.device_id = w.device_id and o.before_ps = w.before_ps
        and w.start_ps > w.before_ps
    where w.request is null
    group by w.run_id, d.host, w.step
)

select
    -- run
    s.run_id,
    -- host
    s.host,
    -- step of the server
    s.step,
    -- prefill, decode, mixed, or step where the trace does not tell
    s.phase,
    -- requests that it serves
    s.requests,
    -- tokens of all of them
    s.tokens,
    -- of these, the ones that are known to be of prompts
    s.least_prompt_tokens,
    -- of these, all but the ones that are known not to be of prompts
    s.most_prompt_tokens,
    -- start of its marker on the host
    s.start_ps,
    -- start of its first op over the host's devices
    r.first_op_ps,
    -- end of its last op over the host's devices
    r.end_ps,
    -- devices of the host that ran it
    cast(r.devices as bigint) as devices,
    -- sum of their periods; NULL where it is not known when a request is open on their clocks
    cast(case when u.run_id is null then r.period_ps end as bigint) as period_ps,
    -- sum of their time in which a compute op runs; NULL where kernels communicate
    cast(case when k.run_id is null then r.compute_ps end as bigint) as compute_ps,
    -- sum of their exposed time; NULL where kernels communicate
    cast(case when k.run_id is null then r.exposed_ps end as bigint) as exposed_ps,
    -- sum over them of the gaps of more than 10 us before its launches; NULL of virtual devices
    cast(case when r.virtual = 0 then coalesce(l.host_gap_ps, 0) end as bigint) as host_gap_ps
from steps as s
left join ran as r on r.run_id = s.run_id and r.host = s.host and r.step = s.step
left join late as l on l.run_id = s.run_id and l.host = s.host and l.step = s.step
left join kernels as k on k.run_id = s.run_id
left join unknown as u on u.run_id = s.run_id and u.host = s.host
