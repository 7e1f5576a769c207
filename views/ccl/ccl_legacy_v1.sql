-- one row per run and metric of CCL-Bench for TPUs
-- The values that CCL-Bench's own tools give on the files that `xlahouse export ccl-bench` writes:
-- their definitions unchanged, faults included, so that rows can be compared with the published
-- ones; ccl_bench_v2 has ours. Tools at revision 1d257f0. `note` states what is wrong with each. A
-- value is NULL where their tools give -1, NaN or nothing; `reason` states what they lack.
with facts as (
    select
        r.run_id, r.iterations, r.workload, r.output_tokens,
        r.expected_device_count as chips,
        lower(replace(replace(coalesce(s.device_kind, r.device_kind), ' ', ''), '_', '')) as kind
    from runs as r
    left join run_settings as s on s.run_id = r.run_id
),

-- Host steps of vLLM
step_times as (
    select
        run_id,
        max(steps) as steps,
        sum(duration_ps) as total_ps,
        max(case when place = 1 then duration_ps end) as first_ps,
        avg(case when steps <= 2 or (place > 1 and place < steps) then duration_ps end) as inner_ps,
        avg(case when place > 1 and (steps = 2 or place < steps) then duration_ps end) as later_ps
    from _ccl_step_v1
    where marked_by = 'vllm'
    group by run_id
),

copied as (
    select
        run_id,
        sum(copied_bytes) as copied_bytes,
        sum(end_ps - start_ps) as copying_ps
    from _ccl_copy_v1
    where pairing = 'sized'
    group by run_id
),

copy_runs as (
    select run_id
    from _ccl_copy_v1
    where pairing = 'any'
    group by run_id
),

-- When an op with FLOPs runs on any chip
working as (
    select
        run_id, start_ps, start_ps + duration_ps as end_ps,
        max(start_ps + duration_ps) over (
            partition by run_id order by start_ps, duration_ps
            rows between unbounded preceding and 1 preceding
        ) as reached_ps
    from _ccl_chosen_event_v1
    where model_flops > 0 and duration_ps > 0
),

active as (
    select
        run_id,
        sum(greatest(end_ps - greatest(start_ps, coalesce(reached_ps, start_ps)), 0)) as active_ps
    from working
    group by run_id
),

found as (
    select
        f.run_id, 'avg_step_time' as metric,
        coalesce(
            t.inner_ps / 1e12,
            nullif(
                round(
                    cast(s.last_ps - s.first_ps as double) / 1e12
                    / nullif(cast(f.iterations as double), 0) * 1e6
                ) / 1e6,
                0
            )
        ) as value
    from facts as f
    inner join _ccl_sum_v1 as s on s.run_id = f.run_id
    left join step_times as t on t.run_id = f.run_id
    union all
    select f.run_id, 'ttft', cast(t.first_ps as double) / 1e12
    from facts as f
    inner join step_times as t on t.run_id = f.run_id
    where f.workload = 'inference'
    union all
    select f.run_id, 'tpot', t.later_ps / 1e12
    from facts as f
    inner join step_times as t on t.run_id = f.run_id
    where f.workload = 'inference' and coalesce(f.output_tokens, 2) > 1
    union all
    select
        f.run_id, 'mfu',
        round(
            cast(s.model_flops as double) / nullif(cast(a.active_ps as double) / 1e12, 0)
            / nullif(918e12 * cast(f.chips as double), 0) * 1e6
        ) / 1e4
    from facts as f
    inner join _ccl_sum_v1 as s on s.run_id = f.run_id
    inner join active as a on a.run_id = f.run_id
    where f.kind in ('tpuv6lite', 'tpuv6e', 'v6e')
    union all
    select run_id, 'communication_fraction', transfer_ratio * 100
    from _ccl_sum_v1
    union all
    select
        run_id, 'compute_comm_overlap',
        cast(overlap_ps as double) / nullif(cast(transfer_ps as double), 0) * 100
    from _ccl_overlap_v1
    union all
    select run_id, 'collective_vol_allreduce_gb', cast(allreduce_bytes as double) / 1e9
    from _ccl_sum_v1
    union all
    select run_id, 'collective_vol_allgather_gb', cast(allgather_bytes as double) / 1e9
    from _ccl_sum_v1
    union all
    select run_id, 'collective_vol_reducescatter_gb', cast(reducescatter_bytes as double) / 1e9
    from _ccl_sum_v1
    union all
    select run_id, 'collective_vol_alltoall_gb', cast(alltoall_bytes as double) / 1e9
    from _ccl_sum_v1
    union all
    select
        run_id, 'collective_vol_total_gb',
        cast(
            allreduce_bytes + allgather_bytes + reducescatter_bytes + alltoall_bytes as double
        ) / 1e9
    from _ccl_sum_v1
    union all
    select
        run_id,
        concat('bandwidth_utilization_', replace(hlo_category, '-', ''), '_group_6'),
        rate
    from _ccl_bandwidth_v1
    union all
    select
        run_id, 'average_memory_bandwidth',
        cast(copied_bytes as double) / nullif(cast(copying_ps as double), 0) * 1000
    from copied
    union all
    select
        t.run_id, 'memory_transfer_overhead',
        round(
            cast(coalesce(o.bare_copy_ps, 0) as double) / nullif(cast(t.total_ps as double), 0) * 1e6
        ) / 1e4
    from step_times as t
    inner join copy_runs as c on c.run_id = t.run_id
    left join _ccl_overlap_v1 as o on o.run_id = t.run_id
    union all
    select
        run_id, 'dominant_kernel_concentration',
        cast(most_ps as double) / nullif(cast(all_ps as double), 0) * 100
    from _ccl_sum_v1
    union all
    select
        f.run_id, 'total_communication_time',
        cast(coalesce(s.device_transfer_ps, s.transfer_ps) as double) / 1e12
        / nullif(cast(coalesce(nullif(f.iterations, 0), 1) as double), 0)
    from facts as f
    inner join _ccl_sum_v1 as s on s.run_id = f.run_id
)

select
    -- run
    f.run_id,
    -- CCL-Bench's name of the metric
    m.metric,
    -- value by its definition
    cast(v.value as double) as value,
    -- s, %, GB or GB/s, as it calls it
    m.unit,
    -- why there is no value; NULL where there is one
    case
        when v.value is not null then null
        when s.run_id is null then 'no TPU was traced'
        else m.missing
    end as reason,
    -- what is wrong with the definition
    m.note
from facts as f
cross join _ccl_metric_v1 as m
left join _ccl_sum_v1 as s on s.run_id = f.run_id
left join found as v on v.run_id = f.run_id and v.metric = m.metric
