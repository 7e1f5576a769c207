-- one row per run, phase, algorithm, source and target device
-- The demand that a designer of topologies (TopoOpt) starts from: the bytes of traffic_matrix from
-- device to device per step, with all-reduces apart. An all-reduce may go around any ring
-- of its group, so its bytes can move to other links; all other bytes have to reach their target.
-- The targets of a source are its degree: the circuits that it needs at once. A query must choose
-- one of the algorithms. Untraced sources have no rows. A target without a known device is NULL;
-- its source's degree is then not known. heat_ratio is NULL where bytes or a target of any pair in
-- the phase and algorithm are not known.
with pairs as (
    select
        run_id, phase, algorithm, source_device_id, target_device_id,
        max(case when kind = 'all-reduce' then 1 else 0 end) as has_all_reduce,
        max(case when kind = 'all-reduce' then 0 else 1 end) as has_other,
        sum(case when kind = 'all-reduce' then bytes else 0 end) as all_reduce_bytes,
        sum(case when kind = 'all-reduce' then 0 else bytes end) as other_bytes,
        count(case when kind = 'all-reduce' and bytes is null then 1 end) as all_reduce_unknown,
        count(case when kind is distinct from 'all-reduce' and bytes is null then 1 end)
            as other_unknown
    from traffic_matrix_v1
    group by run_id, phase, algorithm, source_device_id, target_device_id
),

known as (
    select
        run_id, phase, algorithm, source_device_id, target_device_id, has_all_reduce, has_other,
        case when all_reduce_unknown = 0 then all_reduce_bytes end as all_reduce_bytes,
        case when other_unknown = 0 then other_bytes end as other_bytes
    from pairs
),

summed as (
    select
        *,
        all_reduce_bytes + other_bytes as bytes
    from known
),

sources as (
    select
        run_id, phase, algorithm, source_device_id,
        case when count(target_device_id) = count(*) then count(*) end as targets,
        case when count(target_device_id) = count(*) then sum(has_all_reduce) end
            as all_reduce_targets,
        case when count(target_device_id) = count(*) then sum(has_other) end as other_targets
    from known
    group by run_id, phase, algorithm, source_device_id
),

hottest as (
    select
        run_id, phase, algorithm,
        case when count(target_device_id) = count(*) and count(bytes) = count(*) then max(bytes) end
            as bytes
    from summed
    group by run_id, phase, algorithm
)

select
    -- run
    s.run_id,
    -- phase; NULL outside every marker
    s.phase,
    -- ring, bidirectional_ring, direct or compiled
    s.algorithm,
    -- device that sends
    s.source_device_id,
    -- device that receives; NULL where the target is not known
    s.target_device_id,
    -- steps of the phase that have launches
    t.step_count,
    -- bytes of all-reduces from source to target, a step
    s.all_reduce_bytes / nullif(cast(t.step_count as double), 0) as step_all_reduce_bytes,
    -- bytes of all other collectives from source to target, a step
    s.other_bytes / nullif(cast(t.step_count as double), 0) as step_other_bytes,
    -- their sum
    s.bytes / nullif(cast(t.step_count as double), 0) as step_bytes,
    -- bytes from source to target, over the most bytes of a pair in the phase and algorithm
    s.bytes / nullif(h.bytes, 0) as heat_ratio,
    -- devices that the source sends to: its degree
    cast(o.targets as bigint) as target_count,
    -- devices that it sends bytes of all-reduces to
    cast(o.all_reduce_targets as bigint) as all_reduce_target_count,
    -- devices that it sends bytes of other collectives to
    cast(o.other_targets as bigint) as other_target_count
from summed as s
inner join sources as o
    on o.run_id = s.run_id and o.phase is not distinct from s.phase
    and o.algorithm = s.algorithm and o.source_device_id = s.source_device_id
left join _steps_of_phase_v1 as t on t.run_id = s.run_id and t.phase is not distinct from s.phase
inner join hottest as h
    on h.run_id = s.run_id and h.phase is not distinct from s.phase and h.algorithm = s.algorithm
