-- one row per run, phase, axis, kind, algorithm, source and target device
-- Bytes from device to device under each of several algorithms; a query must choose one. ring: all to
-- the successor in group order. bidirectional_ring: half to each neighbour. direct: an equal share
-- to each other member. Under both rings an all-to-all stays direct. compiled: as the TPU's compiler
-- chose, in runs whose programs state its choices (instructions.collective_emitter): half to each
-- neighbour on the rings that it states, where the order of the members is known; of two members
-- all to the other; else the target is NULL, and target_problem states why. Under all algorithms a
-- permute and a send follow their pairs; a broadcast on a ring runs from the first member to the
-- last. Per source, the targets of one algorithm add up to its wire bytes. A target without a known
-- device is NULL, and so are bytes with an unknown part. Untraced sources have no rows, and a device
-- sends nothing to itself. Of a compiled run, the rows are of one prefill and of one decode step.
with sent as (
    select
        run_id, world, program_id, op, group_index, device_id, phase, axis, kind,
        min(group_size) as group_size,
        case when count(wire_bytes * executions) = count(*) then sum(wire_bytes * executions) end
            as wire_bytes
    from _wire_v1
    where wire_bytes is distinct from 0
    group by run_id, world, program_id, op, group_index, device_id, phase, axis, kind
),

algorithms as (
    select algorithm
    from (values ('ring'), ('bidirectional_ring'), ('direct'), ('compiled')) as names (algorithm)
),

stating as (
    select run_id
    from instructions
    where collective_emitter is not null
    group by run_id
),

routed as (
    select
        s.*,
        a.algorithm,
        case
            when s.kind in ('collective-permute', 'send-recv') then 'pairs'
            when a.algorithm = 'compiled' and s.group_size = 2 then 'direct'
            when a.algorithm = 'compiled' then 'compiled'
            when s.kind in ('all-to-all', 'ragged-all-to-all') then 'direct'
            else a.algorithm
        end as route
    from sent as s
    cross join algorithms as a
    left join stating as t on t.run_id = s.run_id
    where a.algorithm <> 'compiled' or t.run_id is not null
),

seated as (
    select r.*, g.position
    from routed as r
    left join replica_groups as g
        on g.run_id = r.run_id and g.world = r.world and g.program_id = r.program_id
        and g.op = r.op and g.group_index = r.group_index and g.device_id = r.device_id
),

by_ring as (
    select
        s.run_id, s.phase, s.axis, s.kind, s.algorithm, s.device_id as source_device_id,
        g.device_id as target_device_id,
        s.wire_bytes as bytes, cast(null as varchar) as target_problem
    from seated as s
    left join replica_groups as g
        on g.run_id = s.run_id and g.world = s.world and g.program_id = s.program_id
        and g.op = s.op and g.group_index = s.group_index
        and g.position = (s.position + 1) % nullif(s.group_size, 0)
    where s.route = 'ring'
),

sides as (
    select side from (values (1), (-1)) as two (side)
),

by_two_rings as (
    select
        s.run_id, s.phase, s.axis, s.kind, s.algorithm, s.device_id as source_device_id,
        g.device_id as target_device_id,
        s.wire_bytes / 2 as bytes, cast(null as varchar) as target_problem
    from seated as s
    cross join sides as d
    left join replica_groups as g
        on g.run_id = s.run_id and g.world = s.world and g.program_id = s.program_id
        and g.op = s.op and g.group_index = s.group_index
        and g.position = (s.position + s.group_size + d.side) % nullif(s.group_size, 0)
    where s.route = 'bidirectional_ring'
),

by_share as (
    select
        s.run_id, s.phase, s.axis, s.kind, s.algorithm, s.device_id as source_device_id,
        g.device_id as target_device_id,
        case
            when g.run_id is null then s.wire_bytes
            else s.wire_bytes / nullif(s.group_size - 1, 0)
        end as bytes,
        cast(null as varchar) as target_problem
    from seated as s
    left join replica_groups as g
        on g.run_id = s.run_id and g.world = s.world and g.program_id = s.program_id
        and g.op = s.op and g.group_index = s.group_index and g.position <> s.position
    where s.route = 'direct'
),

by_pairs as (
    select
        s.run_id, s.phase, s.axis, s.kind, s.algorithm, s.device_id as source_device_id,
        p.target_device_id,
        s.wire_bytes as bytes, cast(null as varchar) as target_problem
    from routed as s
    left join permute_pairs as p
        on p.run_id = s.run_id and p.world = s.world and p.program_id = s.program_id
        and p.op = s.op and p.source_device_id = s.device_id
        and p.target_device_id is distinct from p.source_device_id
    where s.route = 'pairs'
),

by_compiler as (
    select
        s.run_id, s.phase, s.axis, s.kind, s.algorithm, s.device_id as source_device_id,
        n.neighbour_device_id as target_device_id,
        s.wire_bytes * coalesce(n.share, 1) as bytes,
        case
            when n.run_id is not null then null
            when i.collective_strategy is not null
                then concat('the order of ', i.collective_strategy, ' is not known here')
            else 'the compiler does not state the way of a transfer'
        end as target_problem
    from routed as s
    left join _ring_neighbour_v1 as n
        on n.run_id = s.run_id and n.world = s.world and n.program_id = s.program_id
        and n.op = s.op and n.group_index = s.group_index and n.device_id = s.device_id
    left join instructions as i
        on i.run_id = s.run_id and i.world = s.world and i.program_id = s.program_id
        and i.op = s.op
    where s.route = 'compiled'
),

edges as (
    select * from by_ring
    union all
    select * from by_two_rings
    union all
    select * from by_share
    union all
    select * from by_pairs
    union all
    select * from by_compiler
)

select
    -- run
    run_id,
    -- prefill, decode, mixed, warmup, compile or step; NULL outside every marker
    phase,
    -- mesh axes joined by +, or none, mixed or unclassified
    axis,
    -- kind of the collective
    kind,
    -- ring, bidirectional_ring, direct or compiled
    algorithm,
    -- device that sends
    source_device_id,
    -- device that receives; NULL where the target is not known
    target_device_id,
    -- bytes sent
    cast(case when count(bytes) = count(*) then sum(bytes) end as double) as bytes,
    -- why the compiler's choice does not give the target, of some of the bytes; NULL where it does, and
    -- under other algorithms
    min(target_problem) as target_problem
from edges
group by run_id, phase, axis, kind, algorithm, source_device_id, target_device_id
