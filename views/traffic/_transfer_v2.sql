-- one row per scope and transfer of it
-- scope device: the collectives of each device. scope run: the instances, each from its earliest
-- start to its latest end, with the bytes that all its seen participants send. scope group: the
-- instances of one set of peers (devices with equal coordinates on the data axes); an instance
-- belongs to every set that it has traced members of, whole. scope rail: the instances of several
-- hosts, in the rail of each local ordinal that a traced member has on its host. Collectives that
-- move nothing between devices are left out: groups of one, and devices in no pair of a permute. A
-- collective without an instance (its group is not known) is a transfer of its own, of its device's
-- set, and of no rail.
with members as (
    select
        k.run_key, d.device_id,
        case when g.stage is not null and not g.inferred then g.peer_group end as group_id,
        d.local_ordinal as rail_id,
        case when d.host is not null
            then min(d.device_id) over (partition by d.run_id, d.host) end as host_number
    from devices as d
    inner join _device_group_v1 as g on g.run_id = d.run_id and g.device_id = d.device_id
    inner join _run_key_v1 as k on k.run_id = d.run_id
),

moving as (
    select
        c.run_key, c.device_id, c.axis_key, c.phase, c.instance, c.op, c.payload_bytes,
        c.wire_bytes, c.start_ps, c.start_ps + c.duration_ps as end_ps,
        m.group_id, m.rail_id, m.host_number
    from _collective_wire_v1 as c
    left join members as m on m.run_key = c.run_key and m.device_id = c.device_id
    where c.group_size is distinct from 1 and c.axis <> 'none'
        and (c.group_index is not null or c.payload_bytes is distinct from 0)
),

instances as (
    select
        run_key, instance,
        min(axis_key) as axis_key,
        min(phase) as phase,
        min(op) as op,
        min(start_ps) as start_ps,
        max(end_ps) as end_ps,
        case when count(payload_bytes) = count(*) then max(payload_bytes) end as payload_bytes,
        case when count(wire_bytes) = count(*) then sum(wire_bytes) end as wire_bytes,
        max(host_number) - min(host_number) as more_hosts
    from moving
    where instance is not null
    group by run_key, instance
),

sets as (
    select run_key, instance, group_id
    from moving
    where instance is not null and group_id is not null
    group by run_key, instance, group_id
),

rails as (
    select run_key, instance, rail_id
    from moving
    where instance is not null and rail_id is not null
    group by run_key, instance, rail_id
),

transfers as (
    select
        run_key as line_key, device_id as member_id, axis_key, phase, op, start_ps, end_ps,
        payload_bytes, wire_bytes
    from moving
    union all
    select
        run_key + 1, cast(null as bigint), axis_key, phase, op, start_ps, end_ps,
        payload_bytes, wire_bytes
    from instances
    union all
    select
        run_key + 1, cast(null as bigint), axis_key, phase, op, start_ps, end_ps,
        payload_bytes, wire_bytes
    from moving
    where instance is null
    union all
    select
        i.run_key + 2, s.group_id, i.axis_key, i.phase, i.op, i.start_ps, i.end_ps,
        i.payload_bytes, i.wire_bytes
    from instances as i
    inner join sets as s on s.run_key = i.run_key and s.instance = i.instance
    union all
    select
        run_key + 2, group_id, axis_key, phase, op, start_ps, end_ps, payload_bytes, wire_bytes
    from moving
    where instance is null and group_id is not null
    union all
    select
        i.run_key + 3, l.rail_id, i.axis_key, i.phase, i.op, i.start_ps, i.end_ps,
        i.payload_bytes, i.wire_bytes
    from instances as i
    inner join rails as l on l.run_key = i.run_key and l.instance = i.instance
    where i.more_hosts > 0
)

select
    -- key of run and scope, as _line_v1 has them
    line_key,
    -- device, set of peers or rail, by the scope; NULL in scope run
    member_id,
    -- key of run and axis
    axis_key,
    -- phase; NULL outside every marker
    phase,
    -- name of the HLO instruction
    op,
    -- start
    start_ps,
    -- end
    end_ps,
    -- S
    payload_bytes,
    -- bytes that are sent
    wire_bytes
from transfers
