-- one row per collective on a device, as in the table collectives, and per collective of a program on
-- a device, as in program_collectives
-- Views of bytes read this one, views of times _collective_wire_v1. Adds the axis and the bytes that
-- the device sends: all-reduce 2(n-1)/n S; reduce-scatter, all-gather and all-to-all (n-1)/n S; permute and send S; broadcast S on every member but the
-- last; a group of one nothing. NULL where unknown: a ragged-all-to-all, no payload, no group. A
-- device in no pair of a permute or send has a payload of 0 and no group: it sends nothing, and
-- shares the instruction's axis. A payload without a group means that no pair is known.
with instruction_axes as (
    select run_id, world, program_id, op, min(axis) as axis
    from collective_axis_v1
    group by run_id, world, program_id, op
),

keyed_axes as (
    select i.run_id, i.world, i.program_id, i.op, i.axis, n.axis_key
    from instruction_axes as i
    inner join _axis_key_v1 as n on n.run_id = i.run_id and n.axis = i.axis
),

-- The collectives of compiled programs have no times, and count as often as a step executes them.
rows_of_both as (
    select
        run_id, device_id, launch, program_id, module, op, kind, instance, group_index, group_size,
        dtype, payload_bytes, start_ps, duration_ps, is_async, wait_ps, arrival_ps, phase, request,
        step, layer, component, true as is_measured, cast(1 as bigint) as executions
    from collectives
    union all
    select
        run_id, device_id, cast(null as bigint), program_id, module, op, kind,
        cast(null as bigint), group_index, group_size, dtype, payload_bytes, cast(null as bigint),
        cast(null as bigint), is_async, cast(null as bigint), cast(null as bigint), phase,
        cast(null as bigint), step, layer, component, false, executions
    from program_collectives
),

placed as (
    select
        c.*,
        d.world,
        (d.inferred or coalesce(d.core, '') = 'cpu') as inferred,
        coalesce(
            a.axis, case when c.group_size = 1 then 'none' else 'unclassified' end
        ) as axis,
        n.run_key,
        coalesce(
            a.axis_key, n.run_key + case when c.group_size = 1 then 0 else n.axis_unit end
        ) as axis_key,
        g.position,
        case
            when c.payload_bytes > 0
                then cast(round(
                    power(2e0, least(round(ln(c.payload_bytes) / 0.6931471805599453e0), 62))
                ) as bigint)
        end as nearest_bytes
    from rows_of_both as c
    left join _run_key_v1 as n on n.run_id = c.run_id
    left join devices as d on d.run_id = c.run_id and d.device_id = c.device_id
    left join keyed_axes as a
        on a.run_id = c.run_id and a.world = d.world and a.program_id = c.program_id
        and a.op = c.op
        and (c.group_index is not null or c.kind in ('collective-permute', 'send-recv'))
    left join replica_groups as g
        on g.run_id = c.run_id and g.world = d.world and g.program_id = c.program_id
        and g.op = case when c.kind = 'collective-broadcast' then c.op end
        and g.group_index = c.group_index and g.device_id = c.device_id
)

select
    -- run
    run_id,
    -- device
    device_id,
    -- launch on the device; NULL outside every launch
    launch,
    -- processes whose programs share device numbers
    world,
    -- the device is virtual, or its identity deduced
    inferred,
    -- compiled program
    program_id,
    -- name of the program
    module,
    -- name of the HLO instruction
    op,
    -- kind of the collective
    kind,
    -- mesh axes joined by +, or none, mixed or unclassified
    axis,
    -- key of the run
    run_key,
    -- key of run and axis
    axis_key,
    -- one number on every participant of one group's transfer
    instance,
    -- which of the instruction's replica groups
    group_index,
    -- members of that group, traced or not
    group_size,
    -- element type
    dtype,
    -- S, logical bytes of the instruction
    payload_bytes,
    -- the largest power of two that is not above S; 0 for no bytes, NULL where S is unknown
    case
        when payload_bytes <= 0 then 0
        when nearest_bytes > payload_bytes then cast(nearest_bytes // 2 as bigint)
        else nearest_bytes
    end as size_bucket_bytes,
    -- bytes that the device sends
    case
        when group_size = 1 then cast(0 as double)
        when kind = 'all-reduce'
            then 2 * (group_size - 1) * cast(payload_bytes as double) / nullif(group_size, 0)
        when kind in ('all-gather', 'reduce-scatter', 'all-to-all')
            then (group_size - 1) * cast(payload_bytes as double) / nullif(group_size, 0)
        when kind in ('collective-permute', 'send-recv')
            and (group_index is not null or payload_bytes = 0)
            then cast(payload_bytes as double)
        when kind = 'collective-broadcast' and position = group_size - 1 then cast(0 as double)
        when kind = 'collective-broadcast' and position is not null
            then cast(payload_bytes as double)
    end as wire_bytes,
    -- start
    start_ps,
    -- duration in flight
    duration_ps,
    -- a start/done pair
    is_async,
    -- duration of the done op; NULL on a synchronous collective
    wait_ps,
    -- start of the barrier directly before the op, else the op's start
    arrival_ps,
    -- phase of its marker; NULL outside every marker
    phase,
    -- request; NULL without a marker
    request,
    -- forward pass within the request
    step,
    -- layer of the model
    layer,
    -- part of the layer
    component,
    -- it was traced; else a program makes it, and it has no times
    is_measured,
    -- times that it is made: 1 of a traced one; of a program's, times in one execution of the program,
    -- NULL where these are decided at run time
    executions
from placed
