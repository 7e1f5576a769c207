-- one row per run and step of a server
-- When a step began on its hosts and ended on their devices, without the periods of _server_pass_v1: latencies
-- need no more. With the group of clocks that can be compared which these times are of (_apart_clock_v1): its
-- host's; where a host has clocks of several groups, as processes of one machine, its devices'.
with ended as (
    select
        s.run_id, d.host, s.step,
        max(coalesce(s.pass_end_ps, s.start_ps + s.duration_ps)) as end_ps,
        min(a.clock_group) as first_group,
        max(a.clock_group) as last_group
    from device_steps as s
    inner join devices as d on d.run_id = s.run_id and d.device_id = s.device_id
    left join _apart_clock_v1 as a on a.run_id = s.run_id and a.device_id = s.device_id
    where s.request is null and d.core is distinct from 'sparsecore' and d.traced
    group by s.run_id, d.host, s.step
),

runs_apart as (
    select run_id
    from _apart_clock_v1
    group by run_id
),

marked as (
    select
        p.run_id, p.step, p.start_ps, p.start_ps + p.duration_ps as marker_end_ps, e.end_ps,
        case
            when r.run_id is null then ''
            else coalesce(
                h.clock_group, case when e.first_group = e.last_group then e.first_group end
            )
        end as clock_group
    from phases as p
    left join ended as e on e.run_id = p.run_id and e.host = p.host and e.step = p.step
    left join _apart_clock_v1 as h on h.run_id = p.run_id and h.host = p.host
    left join runs_apart as r on r.run_id = p.run_id
    where p.source = 'server' and p.request is null
)

select
    -- run
    run_id,
    -- step of the server
    step,
    -- start of its marker, the earliest over hosts
    min(start_ps) as start_ps,
    -- end of its marker, the latest over hosts
    cast(max(marker_end_ps) as bigint) as marker_end_ps,
    -- end of its last op over all devices; NULL where a host's is not known
    case when count(end_ps) = count(*) then max(end_ps) end as end_ps,
    -- group of clocks of all its hosts, '' where all can be compared; NULL where it has several, or is not known
    case
        when count(clock_group) = count(*) and min(clock_group) = max(clock_group)
            then min(clock_group)
    end as clock_group
from marked
group by run_id, step
