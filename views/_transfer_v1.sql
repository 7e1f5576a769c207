-- one row per scope and transfer
-- scope device: the collectives of each device. scope run: the instances, each from its earliest
-- start to its latest end, with what all its seen participants send. What moves nothing between
-- devices is left out: groups of one, and devices that are in no pair of a permute. A collective
-- without an instance (its group is not known) is a transfer of its own.
with moving as (
    select
        *,
        case when instance is null then device_id end as lone_device_id,
        case when instance is null then op end as lone_op,
        case when instance is null then start_ps end as lone_start_ps
    from _collective_wire_v1
    where group_size is distinct from 1 and axis <> 'none'
        and (group_index is not null or payload_bytes is distinct from 0)
),

instances as (
    select
        run_id,
        min(run_number) as run_number,
        min(axis_key) as axis_key,
        min(axis) as axis,
        min(phase) as phase,
        min(op) as op,
        min(start_ps) as start_ps,
        max(start_ps + duration_ps) as end_ps,
        max(payload_bytes) as payload_bytes,
        case when count(wire_bytes) = count(*) then sum(wire_bytes) end as wire_bytes
    from moving
    group by run_id, instance, lone_device_id, lone_op, lone_start_ps
),

transfers as (
    select
        run_id, 2 * run_number as line_key, 'device' as scope, device_id, axis_key, axis, phase, op,
        start_ps, start_ps + duration_ps as end_ps, payload_bytes, wire_bytes
    from moving
    union all
    select
        run_id, 2 * run_number + 1, 'run', cast(null as bigint), axis_key, axis, phase, op,
        start_ps, end_ps, payload_bytes, wire_bytes
    from instances
)

select
    -- run
    run_id,
    -- number of run and scope
    line_key,
    -- device or run
    scope,
    -- device; NULL in scope run
    device_id,
    -- number of the axis, in all runs
    axis_key,
    -- mesh axes joined by +, or mixed or unclassified
    axis,
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
