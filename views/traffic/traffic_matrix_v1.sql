-- one row per run, phase, axis, kind, algorithm, source and target device
-- Bytes from device to device under each of three algorithms; a query must choose one. ring: all to
-- the successor in group order. bidirectional_ring: half to each neighbour. direct: an equal share
-- to each other member. Under both rings an all-to-all stays direct. Under all three a permute and
-- a send follow their pairs; a broadcast on a ring runs from the first member to the last. Per
-- source, the targets of one algorithm add up to its wire bytes. A target without a known device is
-- NULL, and so are bytes with an unknown part. Untraced sources have no rows, and a device sends
-- nothing to itself. Of a compiled run, the rows are of one prefill and of one decode step.
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
    from (values ('ring'), ('bidirectional_ring'), ('direct')) as names (algorithm)
),

routed as (
    select
        s.*,
        a.algorithm,
        case
            when s.kind in ('collective-permute', 'send-recv') then 'pairs'
            when s.kind in ('all-to-all', 'ragged-all-to-all') then 'direct'
            else a.algorithm
        end as route
    from sent as s
    cross join algorithms as a
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
        s.wire_bytes as bytes
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
        s.wire_bytes / 2 as bytes
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
        end as bytes
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
        s.wire_bytes as bytes
    from routed as s
    left join permute_pairs as p
        on p.run_id = s.run_id and p.world = s.world and p.program_id = s.program_id
        and p.op = s.op and p.source_device_id = s.device_id
        and p.target_device_id is distinct from p.source_device_id
    where s.route = 'pairs'
),

edges as (
    select * from by_ring
    union all
    select * from by_two_rings
    union all
    select * from by_share
    union all
    select * from by_pairs
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
    -- ring, bidirectional_ring or direct
    algorithm,
    -- device that sends
    source_device_id,
    -- device that receives; NULL where the target is not known
    target_device_id,
    -- bytes sent
    cast(case when count(bytes) = count(*) then sum(bytes) end as double) as bytes
from edges
group by run_id, phase, axis, kind, algorithm, source_device_id, target_device_id
