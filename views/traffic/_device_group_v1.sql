-- one row per run and device, SparseCores left out
-- Peers are devices with equal coordinates on the data axes (dp, data, fsdp); stage is the
-- coordinate on the axis named pp. A virtual device is alone in its group. In a
-- run without coordinates all devices are one group, and it is not known which of them are peers.
with coordinates as (
    select
        m.run_id, m.device_id,
        sum(
            case when m.axis in ('dp', 'data', 'fsdp') then m.coordinate * a.stride_size else 0 end
        ) as data_place,
        max(case when m.axis = 'pp' then m.coordinate end) as stage,
        max(case when m.axis = 'pp' then m.size end) as stages
    from run_mesh_v1 as m
    inner join _mesh_axis_v1 as a on a.run_id = m.run_id and a.axis_index = m.axis_index
    group by m.run_id, m.device_id
),

launched as (
    select run_id, device_id, count(*) as launches
    from launches
    group by run_id, device_id
)

select
    -- run
    d.run_id,
    -- device
    d.device_id,
    -- the device is virtual, or its identity deduced
    coalesce(d.inferred or coalesce(d.core, '') = 'cpu', false) as inferred,
    -- same number on all peers, and on no other device of the run
    cast(
        case
            when d.inferred or coalesce(d.core, '') = 'cpu' then -2 - d.device_id
            when c.run_id is null then -1
            else c.data_place
        end as bigint
    ) as peer_group,
    -- the other devices of the group are known to be peers
    coalesce(d.inferred or coalesce(d.core, '') = 'cpu' or c.run_id is not null, false) as knows_peers,
    -- pipeline stage, 0 without a pipeline; NULL without coordinates
    case when c.run_id is not null then coalesce(c.stage, 0) end as stage,
    -- stages of the pipeline, 1 without one; NULL without coordinates
    case when c.run_id is not null then coalesce(c.stages, 1) end as stages,
    -- the trace holds launches of the device
    l.run_id is not null as has_launches
from devices as d
left join coordinates as c on c.run_id = d.run_id and c.device_id = d.device_id
left join launched as l on l.run_id = d.run_id and l.device_id = d.device_id
where d.core is distinct from 'sparsecore'
