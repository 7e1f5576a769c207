-- one row per run, request and step that markers name, and group of clocks that can be compared
-- When the step began on the hosts of the group and ended on its devices. A run whose clocks can all be
-- compared is one group, named ''. In others a marker is of its host's group; where a host has clocks of
-- several, as processes of one machine, of the group of its devices that ran the request. A marker whose
-- group is not known is of the group ''.
with ran as (
    select
        s.run_id, s.request, s.step, d.host, coalesce(a.clock_group, '') as clock_group,
        min(s.pass_start_ps) as pass_start_ps, max(s.pass_end_ps) as pass_end_ps
    from device_steps as s
    left join devices as d on d.run_id = s.run_id and d.device_id = s.device_id
    left join _apart_clock_v1 as a on a.run_id = s.run_id and a.device_id = s.device_id
    where s.pass_end_ps is not null and s.request is not null and s.step is not null
    group by s.run_id, s.request, s.step, d.host, coalesce(a.clock_group, '')
),

ran_by as (
    select
        run_id, request, host,
        case when min(clock_group) = max(clock_group) then min(clock_group) end as clock_group
    from ran
    group by run_id, request, host
),

grouped as (
    select
        p.run_id, p.request, p.step, p.phase, p.start_ps, p.start_ps + p.duration_ps as end_ps,
        coalesce(h.clock_group, r.clock_group, '') as clock_group
    from phases as p
    left join _apart_clock_v1 as h on h.run_id = p.run_id and h.host = p.host
    left join ran_by as r on r.run_id = h.run_id and r.request = p.request and r.host = h.host
    where p.source = 'marker' and p.request is not null
        and p.phase in ('prefill', 'decode', 'mixed', 'request')
),

seen as (
    select
        run_id, request, step, clock_group, phase, start_ps as marker_start_ps,
        end_ps as marker_end_ps, cast(null as bigint) as pass_start_ps,
        cast(null as bigint) as pass_end_ps
    from grouped
    where phase <> 'request' and step is not null
    union all
    select
        run_id, request, step, clock_group, null, null, null, pass_start_ps, pass_end_ps
    from ran
),

steps as (
    select
        run_id, request, step, clock_group,
        min(phase) as phase,
        min(marker_start_ps) as marker_start_ps,
        max(marker_end_ps) as marker_end_ps,
        min(pass_start_ps) as first_op_ps,
        max(pass_end_ps) as end_ps
    from seen
    group by run_id, request, step, clock_group
),

-- A request's own marker holds its prefill's start. By time too, since a warm-up's may have the
-- number of a request that counts.
opened as (
    select s.run_id, s.request, s.clock_group, min(g.start_ps) as request_start_ps
    from steps as s
    inner join grouped as g
        on g.run_id = s.run_id and g.request = s.request and g.clock_group = s.clock_group
        and g.start_ps <= s.marker_start_ps and g.end_ps >= s.marker_start_ps
    where s.step = 0 and g.phase = 'request'
    group by s.run_id, s.request, s.clock_group
)

select
    -- run
    s.run_id,
    -- request
    s.request,
    -- forward pass within the request
    s.step,
    -- group of clocks
    s.clock_group,
    -- prefill, decode or mixed; NULL where the group has no marker of the step
    s.phase,
    -- start of its marker, the earliest over the group's hosts
    s.marker_start_ps,
    -- end of its marker, the latest over the group's hosts
    s.marker_end_ps,
    -- start of its first op over the group's devices
    s.first_op_ps,
    -- end of its last op over the group's devices
    s.end_ps,
    -- start of the request's own marker on the group's hosts, if it holds that of this prefill
    case when s.step = 0 then o.request_start_ps end as request_start_ps
from steps as s
left join opened as o
    on o.run_id = s.run_id and o.request = s.request and o.clock_group = s.clock_group
