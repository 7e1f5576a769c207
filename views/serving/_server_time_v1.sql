-- one row per run and step of a server
-- When a step began on its hosts and ended on their devices, without the periods of _server_pass_v1: latencies
-- need no more.
with ended as (
    select
        s.run_id, d.host, s.step, max(coalesce(s.pass_end_ps, s.start_ps + s.duration_ps)) as end_ps
    from device_steps as s
    inner join devices as d on d.run_id = s.run_id and d.device_id = s.device_id
    where s.request is null and d.core is distinct from 'sparsecore' and d.traced
    group by s.run_id, d.host, s.step
)

select
    -- run
    p.run_id,
    -- step of the server
    p.step,
    -- start of its marker, the earliest over hosts
    min(p.start_ps) as start_ps,
    -- end of its marker, the latest over hosts
    cast(max(p.start_ps + p.duration_ps) as bigint) as marker_end_ps,
    -- end of its last op over all devices; NULL where a host's is not known
    case when count(e.end_ps) = count(*) then max(e.end_ps) end as end_ps
from phases as p
left join ended as e on e.run_id = p.run_id and e.host = p.host and e.step = p.step
where p.source = 'server' and p.request is null
group by p.run_id, p.step
