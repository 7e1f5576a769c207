-- one row per run and metric of CCL-Bench for TPUs
-- Our value of each of CCL-Bench's metrics; ccl_legacy_v1 has the value by its own definition, and
-- `note` states the difference. Warm-up and compile phases are left out, idle time is not. A value
-- is NULL where the trace does not give it, and `reason` states what is lacking. Virtual devices
-- have structure, volumes and no times: only values that do not depend on time are given. Copies in
-- flight at once count each instant once. A median of an even number is the mean of the two middle
-- values.
with metrics as (
    select * from (
        values
        (
            'avg_step_time', 's', true, 'no step in the trace',
            'mean over all steps of the longest window of a device: on the devices, not on the host'
        ),
        (
            'ttft', 's', true, 'no marked request: a trace without markers does not say where one begins',
            'start of the request on the host to the end of its prefill on the devices, median over requests'
        ),
        (
            'tpot', 's', true, 'no marked request with two output tokens: without markers a program''s period need not be a token''s',
            'end of the prefill to the end of the last decode step, by decode steps, median over requests'
        ),
        (
            'mfu', '%', true, 'the FLOPs of a phase are not known, or a peak is: mfu_problem of mfu says which',
            'FLOPs that the model needs over peak x wall time of all devices, gaps between steps included'
        ),
        (
            'communication_fraction', '%', true, 'no step in the trace',
            'time with a collective in flight over the windows of all steps and devices; nothing counts twice'
        ),
        (
            'compute_comm_overlap', '%', true, 'no collective in the trace',
            'share of the time with a collective in flight in which the same device computes'
        ),
        (
            'collective_vol_allreduce_gb', 'GB', false, 'a payload is unknown',
            'payload of the instructions, each collective once a traced device'
        ),
        (
            'collective_vol_allgather_gb', 'GB', false, 'a payload is unknown',
            'payload of the instructions, each collective once a traced device'
        ),
        (
            'collective_vol_reducescatter_gb', 'GB', false, 'a payload is unknown',
            'payload of the instructions, each collective once a traced device'
        ),
        (
            'collective_vol_alltoall_gb', 'GB', false, 'a payload is unknown',
            'payload of the instructions, each collective once a traced device'
        ),
        (
            'collective_vol_total_gb', 'GB', false, 'a payload is unknown',
            'payload of all collectives, permutes and broadcasts too, each once a traced device'
        ),
        (
            'bandwidth_utilization_allreduce_group_6', 'GB/s', true, 'no all-reduce whose payload, group and transfer time are known',
            'bus bandwidth, median over instances: payload, the group''s own size, the transfer without the wait for late devices, 1e9 bytes a GB'
        ),
        (
            'bandwidth_utilization_allgather_group_6', 'GB/s', true, 'no all-gather whose payload, group and transfer time are known',
            'bus bandwidth, median over instances: payload, the group''s own size, the transfer without the wait for late devices, 1e9 bytes a GB'
        ),
        (
            'bandwidth_utilization_reducescatter_group_6', 'GB/s', true, 'no reduce-scatter whose payload, group and transfer time are known',
            'bus bandwidth, median over instances: payload, the group''s own size, the transfer without the wait for late devices, 1e9 bytes a GB'
        ),
        (
            'bandwidth_utilization_alltoall_group_6', 'GB/s', true, 'no all-to-all whose payload, group and transfer time are known',
            'bus bandwidth, median over instances: payload, the group''s own size, the transfer without the wait for late devices, 1e9 bytes a GB'
        ),
        (
            'average_memory_bandwidth', 'GB/s', true, 'no asynchronous copy whose halves, program and bytes are known',
            'bytes of async copies, between memories of the device and with the host, over the time with one in flight, which counts once; paired by operand within a launch'
        ),
        (
            'memory_transfer_overhead', '%', true, 'no step in the trace',
            'time in which a device only copies, over its windows'
        ),
        (
            'dominant_kernel_concentration', '%', true, 'no op with a category',
            'largest share of a category in the self time of all ops, so that a loop counts its body once'
        ),
        (
            'total_communication_time', 's', true, 'no step in the trace',
            'time with a collective in flight, mean over devices and steps'
        )
    ) as rows_of (metric, unit, is_timed, missing, note)
),

identified as (
    select
        run_id,
        max(case when inferred or core = 'cpu' then 1 else 0 end) as inferred,
        max(case when traced and core is distinct from 'sparsecore' then 1 else 0 end) as traced
    from devices
    group by run_id
),

steps as (
    select run_id, avg(longest_window_ps) as window_ps
    from step_time_v1
    where step is not null and coalesce(phase, 'none') not in ('warmup', 'compile')
    group by run_id
),

split as (
    select
        run_id,
        sum(device_steps) as device_steps,
        sum(window_ps) as window_ps,
        sum(collective_ps) as collective_ps,
        sum(overlapped_ps) as overlapped_ps,
        sum(exposed_copy_ps) as exposed_copy_ps
    from comm_compute_v2
    where coalesce(phase, 'none') not in ('warmup', 'compile')
    group by run_id
),

efficiency as (
    select
        run_id,
        case when count(mfu_ratio) = count(*) then sum(model_flops) end as model_flops,
        sum(available_flops) as available_flops
    from mfu_v2
    where coalesce(phase, 'none') not in ('warmup', 'compile')
    group by run_id
),

volume as (
    select
        run_id, kind,
        case when count(payload_bytes) = count(*) then sum(payload_bytes) end as payload_bytes
    from collectives
    where coalesce(phase, 'none') not in ('warmup', 'compile')
    group by run_id, kind
),

kinds as (
    select * from (
        values
        (1, 'all-reduce', 'allreduce'), (2, 'all-gather', 'allgather'),
        (3, 'reduce-scatter', 'reducescatter'), (4, 'all-to-all', 'alltoall')
    ) as rows_of (kind_number, kind, short_name)
),

total as (
    select
        run_id,
        case when count(payload_bytes) = count(*) then sum(payload_bytes) end as payload_bytes
    from volume
    group by run_id
),

rates as (
    select
        i.run_id, k.short_name, i.busbw_bytes_per_s,
        row_number() over (
            partition by i.run_key, k.kind_number order by i.busbw_bytes_per_s
        ) as place,
        count(*) over (partition by i.run_key, k.kind_number) as places
    from _instance_v1 as i
    inner join kinds as k on k.kind = i.kind
    where i.busbw_bytes_per_s is not null and i.group_size > 1 and not coalesce(i.is_bound, false)
        and coalesce(i.phase, 'none') not in ('warmup', 'compile')
),

copy_ops as (
    select run_id, device_id, program_id, op,
        sum(bytes_accessed) / nullif(cast(count(*) as double), 0) as mean_bytes
    from ops
    where is_async and coalesce(line, 'none') <> 'Async XLA Ops'
        and (category = 'copy' or (category = 'host_transfer' and opcode = 'copy-start'))
        and coalesce(phase, 'none') not in ('warmup', 'compile')
    group by run_id, device_id, program_id, op
    having count(bytes_accessed) = count(*) and sum(bytes_accessed) > 0
),

copies as (
    select
        p.run_id, c.mean_bytes, p.start_ps, p.end_ps,
        max(p.end_ps) over (
            partition by p.run_id, p.device_id order by p.start_ps
            rows between unbounded preceding and 1 preceding
        ) as reached_ps
    from _async_pair_v1 as p
    inner join copy_ops as c
        on c.run_id = p.run_id and c.device_id = p.device_id and c.program_id = p.program_id
        and c.op = p.start_op
),

-- Copies in flight at once count each instant once.
copied as (
    select
        run_id,
        sum(mean_bytes) as bytes,
        sum(greatest(end_ps - greatest(start_ps, coalesce(reached_ps, start_ps)), 0))
            as duration_ps
    from copies
    group by run_id
),

categories as (
    select run_id, hlo_category, sum(self_ps) as category_ps
    from ops
    where hlo_category <> '' and coalesce(line, 'none') <> 'Async XLA Ops'
        and coalesce(phase, 'none') not in ('warmup', 'compile')
    group by run_id, hlo_category
),

dominant as (
    select run_id, max(category_ps) as most_ps, sum(category_ps) as all_ps
    from categories
    group by run_id
),

found as (
    select run_id, 'avg_step_time' as metric, window_ps / 1e12 as value from steps
    union all
    select run_id, 'ttft', ttft_s from _run_latency_v2
    union all
    select run_id, 'tpot', tpot_s from _run_latency_v2
    union all
    select run_id, 'mfu', model_flops / nullif(available_flops, 0) * 100 from efficiency
    union all
    select
        run_id, 'communication_fraction',
        cast(collective_ps as double) / nullif(cast(window_ps as double), 0) * 100
    from split
    union all
    select
        run_id, 'compute_comm_overlap',
        cast(overlapped_ps as double) / nullif(cast(collective_ps as double), 0) * 100
    from split
    union all
    select
        run_id, 'memory_transfer_overhead',
        cast(exposed_copy_ps as double) / nullif(cast(window_ps as double), 0) * 100
    from split
    union all
    select
        run_id, 'total_communication_time',
        cast(collective_ps as double) / 1e12 / nullif(cast(device_steps as double), 0)
    from split
    union all
    select
        i.run_id, concat('collective_vol_', k.short_name, '_gb'),
        case when v.run_id is null then 0 else cast(v.payload_bytes as double) / 1e9 end
    from identified as i
    cross join kinds as k
    left join volume as v on v.run_id = i.run_id and v.kind = k.kind
    where i.traced = 1
    union all
    select
        i.run_id, 'collective_vol_total_gb',
        case when t.run_id is null then 0 else cast(t.payload_bytes as double) / 1e9 end
    from identified as i
    left join total as t on t.run_id = i.run_id
    where i.traced = 1
    union all
    select
        r.run_id, concat('bandwidth_utilization_', r.short_name, '_group_6'),
        avg(r.busbw_bytes_per_s) / 1e9
    from rates as r
    where r.place in ((r.places + 1) // 2, (r.places + 2) // 2)
    group by r.run_id, r.short_name
    union all
    select
        run_id, 'average_memory_bandwidth',
        bytes / nullif(cast(duration_ps as double), 0) * 1000
    from copied
    union all
    select
        run_id, 'dominant_kernel_concentration',
        cast(most_ps as double) / nullif(cast(all_ps as double), 0) * 100
    from dominant
)

select
    -- run
    r.run_id,
    -- CCL-Bench's name of the metric
    m.metric,
    -- our value of it
    case
        when m.is_timed and i.inferred = 1 then null
        else cast(v.value as double)
    end as value,
    -- s, %, GB (1e9 bytes) or GB/s
    m.unit,
    -- why there is no value; NULL where there is one
    case
        when coalesce(i.traced, 0) = 0 then 'no device was traced'
        when m.is_timed and i.inferred = 1
            then 'virtual devices: their times are not an accelerator''s'
        when v.value is null then m.missing
    end as reason,
    -- what the value is, and how it differs from CCL-Bench's
    m.note
from runs as r
cross join metrics as m
left join identified as i on i.run_id = r.run_id
left join found as v on v.run_id = r.run_id and v.metric = m.metric
