-- one row per run, and the sums that CCL-Bench makes over all its events
-- Few names are read, not millions of events.
with named as (
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
)

select
    -- run
    s.run_id,
    -- earliest start
    s.first_ps,
    -- latest end
    s.last_ps,
    -- FLOPs of the model's mathematics
    s.model_flops,
    -- bytes that all-reduces read and write
    s.allreduce_bytes,
    -- bytes that all-gathers read and write
    s.allgather_bytes,
    -- bytes that reduce-scatters read and write
    s.reducescatter_bytes,
    -- bytes that all-to-alls read and write
    s.alltoall_bytes,
    -- durations of events on devices that are named as transfers; NULL without one
    s.device_transfer_ps,
    -- durations of events that are named as transfers, on devices and hosts
    s.transfer_ps,
    -- share of transfers in the durations of a device's events, the mean over devices; NULL without devices
    h.transfer_ratio,
    -- durations of the category with the largest sum, on devices; NULL without categories
    d.most_ps,
    -- durations of all categories, on devices; NULL without categories
    d.all_ps
from sums as s
left join shares as h on h.run_id = s.run_id
left join dominant as d on d.run_id = s.run_id
