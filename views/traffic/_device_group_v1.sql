-- one row per run and device, SparseCores left out
-- Peers are devices with equal coordinates on the data axes (dp, data, fsdp); stage is the
-- coordinate on the axis named pp. A virtual device is alone in its group. In a
-- run without coordinates all devices are one group, and it is not known which of them are peers.
-- Where the clocks of a group's devices cannot be compared (table clocks), neither its peers nor its
-- launches explain when a device is idle.
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

-- DuckDB would take a group a device for as many rows as there are launches.
launched as (
    select d.run_id, d.device_id
    from devices as d
    where exists (
        select 1 from launches as l where l.run_id = d.run_id and l.device_id = d.device_id
    )
),

placed as (
    select
        d.run_id, d.device_id, d.world, d.clock, c.stage, c.stages,
        coalesce(d.inferred or coalesce(d.core, '') = 'cpu', false) as inferred,
        c.run_id is not null as has_coordinates,
        cast(
            case
                when d.inferred or coalesce(d.core, '') = 'cpu' then -2 - d.device_id
                when c.run_id is null then -1
                else c.data_place
            end as bigint
        ) as peer_group
    from devices as d
    left join coordinates as c on c.run_id = d.run_id and c.device_id = d.device_id
    where d.core is distinct from 'sparsecore'
),

-- clocks that can be compared have one reference
apart as (
    select p.run_id, p.peer_group
    from placed as p
    inner join clocks as k
        on k.run_id = p.run_id and k.world is not distinct from p.world and k.clock = p.clock
    group by p.run_id, p.peer_group
    having min(k.reference) <> max(k.reference)
)

select
    -- run
    p.run_id,
    -- device
    p.device_id,
    -- the device is virtual, or its identity deduced
    p.inferred,
    -- same number on all peers, and on no other device of the run
    p.peer_group,
    -- the other devices of the group are known to be peers, and their times can be compared
    coalesce(p.inferred or (p.has_coordinates and a.run_id is null), false) as knows_peers,
    -- pipeline stage, 0 without a pipeline; NULL without coordinates
    case when p.has_coordinates then coalesce(p.stage, 0) end as stage,
    -- stages of the pipeline, 1 without one; NULL without coordinates
    case when p.has_coordinates then coalesce(p.stages, 1) end as stages,
    -- the trace holds launches of the device, and its times can be compared with those of its group
    l.run_id is not null and a.run_id is null as has_launches
from placed as p
left join apart as a on a.run_id = p.run_id and a.peer_group = p.peer_group
left join launched as l on l.run_id = p.run_id and l.device_id = p.device_id
