-- one row per run, host and step of a server
-- A step of a server as the host marked it (phases, source = server), with its devices: those of the
-- host, SparseCores left out. A step whose ops the trace lacks has no device times.
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

gaps as (
    select run_id, device_id, launch, start_ps, max(duration_ps) as duration_ps
    from host_gaps
    group by run_id, device_id, launch, start_ps
),

late as (
    select l.run_id, d.host, l.step, sum(g.duration_ps) as host_gap_ps
    from gaps as g
    inner join launches as l
        on l.run_id = g.run_id and l.device_id = g.device_id and l.launch = g.launch
    inner join devices_of as d on d.run_id = g.run_id and d.device_id = g.device_id
    where l.request is null
    group by l.run_id, d.host, l.step
),

ran as (
    select
        t.run_id, d.host, t.step,
        count(*) as devices,
        max(case when d.virtual then 1 else 0 end) as virtual,
        min(t.start_ps) as first_op_ps,
        max(coalesce(s.pass_end_ps, t.start_ps + t.window_ps)) as end_ps,
        sum(t.period_ps) as period_ps,
        count(t.period_ps) as periods,
        sum(t.compute_ps) as compute_ps,
        count(t.compute_ps) as computed,
        sum(t.exposed_ps) as exposed_ps
    from device_time_v1 as t
    inner join device_steps as s
        on s.run_id = t.run_id and s.device_id = t.device_id and s.step = t.step
    inner join devices_of as d on d.run_id = t.run_id and d.device_id = t.device_id
    where t.request is null and s.request is null
    group by t.run_id, d.host, t.step
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
    -- sum of their periods; NULL where one is not known
    cast(case when r.periods = r.devices then r.period_ps end as bigint) as period_ps,
    -- sum of their time in which a compute op runs; NULL where kernels communicate
    cast(case when r.computed = r.devices then r.compute_ps end as bigint) as compute_ps,
    -- sum of their exposed time; NULL where kernels communicate
    cast(case when r.computed = r.devices then r.exposed_ps end as bigint) as exposed_ps,
    -- sum over them of the gaps of more than 10 us before its launches; NULL of virtual devices
    cast(case when r.virtual = 0 then coalesce(l.host_gap_ps, 0) end as bigint) as host_gap_ps
from steps as s
left join ran as r on r.run_id = s.run_id and r.host = s.host and r.step = s.step
left join late as l on l.run_id = s.run_id and l.host = s.host and l.step = s.step
