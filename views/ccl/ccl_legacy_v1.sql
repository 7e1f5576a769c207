-- one row per run and metric of CCL-Bench for TPUs
-- The values that CCL-Bench's own tools give on the files that `xlahouse export ccl-bench` writes:
-- their definitions unchanged, faults included, so that rows can be compared with the published
-- ones; ccl_bench_v1 has ours. Tools at revision 1d257f0. `note` states what is wrong with each. A
-- value is NULL where their tools give -1, NaN or nothing; `reason` states what they lack.
with metrics as (
    select * from (
        values
        (
            'avg_step_time', 's', 'no step event of vLLM, and no iterations in the card to divide by',
            'mean of the inner host steps of one vLLM version; else the whole trace, idle time included, over the card''s iterations'
        ),
        (
            'ttft', 's', 'no step event of vLLM, or the card does not say inference',
            'the first host step in the trace, which may belong to no request''s first token'
        ),
        (
            'tpot', 's', 'fewer than two step events of vLLM, one output token, or the card does not say inference',
            'mean of the inner host steps, prefills among them: equal to the step time'
        ),
        (
            'mfu', '%', 'no FLOPs in the trace, no count of chips, or not the one chip that they know the peak of',
            'idle time is left out: FLOPs over the union of the times in which an op with FLOPs runs on any chip'
        ),
        (
            'communication_fraction', '%', 'no event on a device',
            'launches and steps count in the denominator, so that a share reads half of what it is; async transfers count by their start and done'
        ),
        (
            'compute_comm_overlap', '%', 'no step event, or nothing in one that is named as a collective',
            'over the processes of all chips and hosts at once, by name: one chip''s compute hides another''s transfer, and host frames count'
        ),
        (
            'collective_vol_allreduce_gb', 'GB', 'no event',
            'bytes_accessed counts what is read and written, twice the payload; async pairs give 0; over all chips and steps'
        ),
        (
            'collective_vol_allgather_gb', 'GB', 'no event',
            'bytes_accessed counts what is read and written; async pairs give 0; over all chips and steps'
        ),
        (
            'collective_vol_reducescatter_gb', 'GB', 'no event',
            'bytes_accessed counts what is read and written; async pairs give 0; over all chips and steps'
        ),
        (
            'collective_vol_alltoall_gb', 'GB', 'no event',
            'bytes_accessed counts what is read and written; async pairs give 0; over all chips and steps'
        ),
        (
            'collective_vol_total_gb', 'GB', 'no event',
            'sum of the four above; permutes, broadcasts and sends are left out'
        ),
        (
            'bandwidth_utilization_allreduce_group_6', 'GB/s', 'no synchronous all-reduce with bytes and a duration',
            'bytes_accessed in place of the payload, 2^30 called GB, all traced chips taken for one group, and waits for late chips counted as transfer'
        ),
        (
            'bandwidth_utilization_allgather_group_6', 'GB/s', 'no synchronous all-gather with bytes and a duration',
            'bytes_accessed in place of the payload, 2^30 called GB, all chips that run an op of the name taken for one group'
        ),
        (
            'bandwidth_utilization_reducescatter_group_6', 'GB/s', 'no synchronous reduce-scatter with bytes and a duration',
            'bytes_accessed in place of the payload, 2^30 called GB, all chips that run an op of the name taken for one group'
        ),
        (
            'bandwidth_utilization_alltoall_group_6', 'GB/s', 'no synchronous all-to-all with bytes and a duration',
            'bytes_accessed in place of the payload, 2^30 called GB, all chips that run an op of the name taken for one group'
        ),
        (
            'average_memory_bandwidth', 'GB/s', 'no pair of copy-start and copy-done with bytes and a time between',
            'pairs by the number in the name over all chips and programs: one overwrites the other; start to start of the done, which is not when the copy ends'
        ),
        (
            'memory_transfer_overhead', '%', 'no step event of vLLM, or no pair of copy-start and copy-done',
            'whatever any chip does hides a copy of another, waits and step lines included; over host time, for all chips together'
        ),
        (
            'dominant_kernel_concentration', '%', 'no event with a category on a device',
            'nested ops count in their loop and by themselves'
        ),
        (
            'total_communication_time', 's', 'no event',
            'summed over chips, start and done apart, by name: host frames and launches count where theirs fits'
        )
    ) as rows_of (metric, unit, missing, note)
),

facts as (
    select
        r.run_id, r.iterations, r.workload, r.output_tokens,
        r.expected_device_count as chips,
        lower(replace(replace(coalesce(s.device_kind, r.device_kind), ' ', ''), '_', '')) as kind
    from runs as r
    left join run_settings as s on s.run_id = r.run_id
),

-- Few names are read, not millions of events.
named as (
    select
        *,
        lower(name) as lower_name,
        regexp_extract(
            lower(name),
            'all-reduce|allreduce|all-gather|allgather|reduce-scatter|reducescatter|all-to-all|alltoall|collective|nccl',
            0
        ) <> '' as is_counted_transfer
    from _ccl_total_v1
),

sums as (
    select
        run_id,
        min(first_ps) as first_ps,
        max(last_ps) as last_ps,
        sum(model_flops) as model_flops,
        sum(case when hlo_category = 'all-reduce' then bytes_accessed else 0 end) as allreduce_bytes,
        sum(case when hlo_category = 'all-gather' then bytes_accessed else 0 end) as allgather_bytes,
        sum(case when hlo_category = 'reduce-scatter' then bytes_accessed else 0 end)
            as reducescatter_bytes,
        sum(case when hlo_category = 'all-to-all' then bytes_accessed else 0 end) as alltoall_bytes,
        sum(case when is_counted_transfer and device_id is not null then duration_ps end)
            as device_transfer_ps,
        sum(case when is_counted_transfer then duration_ps else 0 end) as transfer_ps
    from named
    group by run_id
),

-- Events of these names are read one by one; where a run has steps, all events are.
names as (
    select
        run_id, name,
        max(case when name = '$core.py:331 step' or name = 'StepMarker' then 1 else 0 end)
            as steps,
        regexp_extract(name, 'copy-(start|done)[.]([0-9]+)', 1) as copy_half,
        regexp_extract(name, 'copy-(start|done)[.]([0-9]+)', 2) as copy_number,
        max(
            case
                when model_flops > 0 then 1
                when hlo_category in ('all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all')
                    and bytes_accessed > 0 then 1
                else 0
            end
        ) as measured
    from named
    group by run_id, name
),

step_runs as (
    select run_id, max(steps) as steps
    from names
    group by run_id
),

chosen as (
    select
        n.run_id, n.name, n.copy_half, n.copy_number,
        regexp_extract(
            lower(n.name),
            'nccl|all[_-]?reduce|all[_-]?gather|reduce[_-]?scatter|all[_-]?to[_-]?all|cross[_-]?device|sendrecv|collective',
            0
        ) <> '' as is_named_transfer,
        regexp_extract(
            lower(n.name), 'dot|convolution|gemm|matmul|fusion|compute|custom-call', 0
        ) <> '' as is_named_compute
    from names as n
    inner join step_runs as r on r.run_id = n.run_id
    where r.steps + n.measured > 0 or n.copy_half <> ''
),

events as (
    select e.*, c.copy_half, c.copy_number, c.is_named_transfer, c.is_named_compute
    from _ccl_event_v1 as e
    inner join chosen as c on c.run_id = e.run_id and c.name = e.name
),

-- Host steps
steps as (
    select
        run_id, start_ps, duration_ps,
        row_number() over (partition by run_id order by start_ps, duration_ps desc) as place,
        count(*) over (partition by run_id) as steps
    from events
    where name = '$core.py:331 step'
),

step_times as (
    select
        run_id,
        max(steps) as steps,
        sum(duration_ps) as total_ps,
        max(case when place = 1 then duration_ps end) as first_ps,
        avg(case when steps <= 2 or (place > 1 and place < steps) then duration_ps end) as inner_ps,
        avg(case when place > 1 and (steps = 2 or place < steps) then duration_ps end) as later_ps
    from steps
    group by run_id
),

markers as (
    select
        run_id, start_ps, duration_ps,
        max(duration_ps) over (partition by run_id) as longest_ps
    from events
    where name = 'StepMarker'
),

windows as (
    select run_id, start_ps, duration_ps, place, steps
    from steps
    union all
    select
        m.run_id, m.start_ps, m.duration_ps,
        row_number() over (partition by m.run_id order by m.start_ps, m.duration_ps desc) as place,
        count(*) over (partition by m.run_id) as steps
    from markers as m
    left join step_times as t on t.run_id = m.run_id
    where t.run_id is null and m.duration_ps * 10 > m.longest_ps
),

stepped_runs as (
    select run_id
    from windows
    group by run_id
),

-- Copies, in the order of the file: device by device
halves as (
    select
        run_id, copy_half, copy_number, bytes_accessed, start_ps,
        row_number() over (
            partition by run_id, copy_number order by device_id, start_ps, name desc, line
        ) as place
    from events
    where copy_half <> '' and device_id is not null
),

overwritten as (
    select
        *,
        lag(copy_half) over (partition by run_id, copy_number order by place) as half_before,
        lag(start_ps) over (partition by run_id, copy_number order by place) as before_ps
    from halves
),

copies as (
    select run_id, before_ps as start_ps, start_ps as end_ps
    from overwritten
    where copy_half = 'done' and half_before = 'start' and start_ps > before_ps
),

sized as (
    select
        *,
        lag(copy_half) over (partition by run_id, copy_number order by place) as half_before,
        lag(start_ps) over (partition by run_id, copy_number order by place) as before_ps,
        lag(bytes_accessed) over (partition by run_id, copy_number order by place) as bytes_before
    from halves
    where copy_half = 'done' or bytes_accessed is not null
),

copied as (
    select
        run_id,
        sum(bytes_before) as copied_bytes,
        sum(start_ps - before_ps) as copying_ps
    from sized
    where copy_half = 'done' and half_before = 'start' and start_ps > before_ps and bytes_before > 0
    group by run_id
),

copy_runs as (
    select run_id
    from copies
    group by run_id
),

-- Where each kind of interval begins and ends, over all processes at once
intervals as (
    select
        e.run_id, e.start_ps, e.start_ps + e.duration_ps as end_ps,
        case when e.is_named_transfer then 1 else 0 end as transfers,
        case when e.is_named_compute and not e.is_named_transfer then 1 else 0 end as computes,
        case
            when e.device_id is not null and e.copy_half = ''
                and regexp_extract(e.name, 'copy-(start|done)[.]|^jit_|dependency-wait', 0) = ''
                then 1
            else 0
        end as busy,
        0 as windows,
        0 as copying
    from events as e
    inner join stepped_runs as s on s.run_id = e.run_id
    where e.duration_ps > 0
    union all
    select run_id, start_ps, start_ps + duration_ps as end_ps, 0, 0, 0, 1, 0
    from windows
    where (steps <= 2 or (place > 1 and place < steps)) and duration_ps > 0
    union all
    select c.run_id, c.start_ps, c.end_ps, 0, 0, 0, 0, 1
    from copies as c
    inner join stepped_runs as s on s.run_id = c.run_id
),

edges as (
    select run_id, start_ps as at_ps, transfers, computes, busy, windows, copying
    from intervals
    where transfers + computes + busy + windows + copying > 0
    union all
    select run_id, end_ps as at_ps, -transfers, -computes, -busy, -windows, -copying
    from intervals
    where transfers + computes + busy + windows + copying > 0
),

-- One row per time: rows at one time have no order
turns as (
    select
        run_id, at_ps,
        sum(transfers) as transfers,
        sum(computes) as computes,
        sum(busy) as busy,
        sum(windows) as windows,
        sum(copying) as copying
    from edges
    group by run_id, at_ps
),

levels as (
    select
        run_id,
        lead(at_ps) over (partition by run_id order by at_ps) - at_ps as length_ps,
        sum(transfers) over (
            partition by run_id order by at_ps rows between unbounded preceding and current row
        ) as transfers,
        sum(computes) over (
            partition by run_id order by at_ps rows between unbounded preceding and current row
        ) as computes,
        sum(busy) over (
            partition by run_id order by at_ps rows between unbounded preceding and current row
        ) as busy,
        sum(windows) over (
            partition by run_id order by at_ps rows between unbounded preceding and current row
        ) as windows,
        sum(copying) over (
            partition by run_id order by at_ps rows between unbounded preceding and current row
        ) as copying
    from turns
),

covered as (
    select
        run_id,
        sum(case when transfers > 0 then windows * length_ps end) as transfer_ps,
        sum(case when transfers > 0 and computes > 0 then windows * length_ps else 0 end)
            as overlap_ps,
        sum(case when copying > 0 and busy = 0 then length_ps else 0 end) as bare_copy_ps
    from levels
    group by run_id
),

-- FLOPs
working as (
    select
        run_id, start_ps, start_ps + duration_ps as end_ps,
        max(start_ps + duration_ps) over (
            partition by run_id order by start_ps, duration_ps
            rows between unbounded preceding and 1 preceding
        ) as reached_ps
    from events
    where model_flops > 0 and duration_ps > 0
),

active as (
    select
        run_id,
        sum(greatest(end_ps - greatest(start_ps, coalesce(reached_ps, start_ps)), 0)) as active_ps
    from working
    group by run_id
),

-- Shares of a device's time
device_shares as (
    select
        run_id, device_id,
        sum(duration_ps) as total_ps,
        sum(
            case
                when lower_name in (
                    'all-reduce', 'allreduce', 'all_reduce', 'all-gather', 'allgather', 'all_gather',
                    'all-to-all', 'alltoall', 'reduce-scatter', 'reducescatter', 'reduce_scatter',
                    'collective-permute', 'collective-permute-start', 'collective-permute-done',
                    'send', 'recv', 'broadcast'
                )
                or lower(hlo_category) in (
                    'all-reduce', 'allreduce', 'all_reduce', 'all-gather', 'allgather', 'all_gather',
                    'all-to-all', 'alltoall', 'reduce-scatter', 'reducescatter', 'reduce_scatter',
                    'collective-permute', 'collective-permute-start', 'collective-permute-done',
                    'send', 'recv', 'broadcast'
                )
                    then duration_ps
                else 0
            end
        ) as transfer_ps
    from named
    where device_id is not null
    group by run_id, device_id
),

shares as (
    select
        run_id,
        avg(cast(transfer_ps as double) / nullif(cast(total_ps as double), 0)) as transfer_ratio
    from device_shares
    group by run_id
),

categories as (
    select run_id, hlo_category, sum(duration_ps) as category_ps
    from named
    where device_id is not null and hlo_category <> ''
    group by run_id, hlo_category
),

dominant as (
    select run_id, max(category_ps) as most_ps, sum(category_ps) as all_ps
    from categories
    group by run_id
),

-- Bandwidth: a group is the events that share a key, and its size the number of their processes
grouped as (
    select
        run_id, device_id, hlo_category,
        case when hlo_category = 'all-reduce' then '' else name end as group_key
    from named
    where hlo_category in ('all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all')
),

sizes as (
    select run_id, hlo_category, group_key, count(distinct device_id) as members
    from grouped
    group by run_id, hlo_category, group_key
),

rates as (
    select
        t.run_id, t.hlo_category,
        cast(t.bytes_accessed as double) / 1073741824e0
        * case when t.hlo_category = 'all-reduce' then 2 else 1 end
        * cast(s.members - 1 as double) / nullif(cast(s.members as double), 0)
        / nullif(cast(t.duration_ps as double) / 1e12, 0) as rate
    from events as t
    inner join sizes as s
        on s.run_id = t.run_id and s.hlo_category = t.hlo_category
        and s.group_key = case when t.hlo_category = 'all-reduce' then '' else t.name end
    where t.bytes_accessed > 0 and t.duration_ps > 0
),

ranked as (
    select
        run_id, hlo_category, rate,
        row_number() over (partition by run_id, hlo_category order by rate) as place,
        count(*) over (partition by run_id, hlo_category) as places
    from rates
),

medians as (
    select run_id, hlo_category, avg(rate) as rate
    from ranked
    where place = (places + 1) // 2 or place = (places + 2) // 2
    group by run_id, hlo_category
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
    inner join sums as s on s.run_id = f.run_id
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
    inner join sums as s on s.run_id = f.run_id
    inner join active as a on a.run_id = f.run_id
    where f.kind in ('tpuv6lite', 'tpuv6e', 'v6e')
    union all
    select run_id, 'communication_fraction', transfer_ratio * 100
    from shares
    union all
    select
        run_id, 'compute_comm_overlap',
        cast(overlap_ps as double) / nullif(cast(transfer_ps as double), 0) * 100
    from covered
    union all
    select run_id, 'collective_vol_allreduce_gb', cast(allreduce_bytes as double) / 1e9 from sums
    union all
    select run_id, 'collective_vol_allgather_gb', cast(allgather_bytes as double) / 1e9 from sums
    union all
    select run_id, 'collective_vol_reducescatter_gb', cast(reducescatter_bytes as double) / 1e9
    from sums
    union all
    select run_id, 'collective_vol_alltoall_gb', cast(alltoall_bytes as double) / 1e9 from sums
    union all
    select
        run_id, 'collective_vol_total_gb',
        cast(
            allreduce_bytes + allgather_bytes + reducescatter_bytes + alltoall_bytes as double
        ) / 1e9
    from sums
    union all
    select
        run_id,
        concat('bandwidth_utilization_', replace(hlo_category, '-', ''), '_group_6'),
        rate
    from medians
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
    left join covered as o on o.run_id = t.run_id
    union all
    select
        run_id, 'dominant_kernel_concentration',
        cast(most_ps as double) / nullif(cast(all_ps as double), 0) * 100
    from dominant
    union all
    select
        f.run_id, 'total_communication_time',
        cast(coalesce(s.device_transfer_ps, s.transfer_ps) as double) / 1e12
        / nullif(cast(coalesce(nullif(f.iterations, 0), 1) as double), 0)
    from facts as f
    inner join sums as s on s.run_id = f.run_id
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
cross join metrics as m
left join sums as s on s.run_id = f.run_id
left join found as v on v.run_id = f.run_id and v.metric = m.metric
