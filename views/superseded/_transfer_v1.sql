-- one row per scope and transfer
-- scope device: the collectives of each device. scope run: the instances, each from its earliest
-- start to its latest end, with the bytes that all its seen participants send. Collectives that
-- move nothing between devices are left out: groups of one, and devices in no pair of a permute. A
-- collective without an instance (its group is not known) is a transfer of its own.
with moving as (
    select
        run_key, device_id, axis_key, phase, instance, op, payload_bytes, wire_bytes,
        start_ps,
        start_ps + duration_ps as end_ps
    from _collective_wire_v1
    where group_size is distinct from 1 and axis <> 'none'
        and (group_index is not null or payload_bytes is distinct from 0)
),

instances as (
    select
        run_key,
        min(axis_key) as axis_key,
        min(phase) as phase,
        min(op) as op,
        min(start_ps) as start_ps,
        max(end_ps) as end_ps,
        case when count(payload_bytes) = count(*) then max(payload_bytes) end as payload_bytes,
        case when count(wire_bytes) = count(*) then sum(wire_bytes) end as wire_bytes
    from moving
    where instance is not null
    group by run_key, instance
),

transfers as (
    select
        run_key as line_key, device_id, axis_key, phase, op, start_ps, end_ps,
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
)

select
    -- key of run and scope: 0 device, 1 run
    line_key,
    -- device; NULL in scope run
    device_id,
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
