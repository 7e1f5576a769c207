-- one row per run, axis, kind and size of collective
-- Mean and percentiles of the bus bandwidths of collective_bandwidth, over all phases. An instance's
-- transfer is the shortest duration among its participants, where nccl-tests averages over them: so
-- ours is the higher where participants wait for each other. A size holds the payloads from a power
-- of two up to the next. Left out, and counted: instances whose transfer is only bounded, and
-- instances whose bandwidth is not known (no bytes or time known, nothing sent by a seen
-- participant, an asynchronous one whose done ops are missing). p50 is the median, the mean of the
-- two middle rows of an even number; p95 is the value of row ceil(p n) in order.
with stated as (
    select
        *,
        case
            when is_bound then 'bound'
            when is_bound = false and busbw_bytes_per_s is not null then 'known'
            else 'unknown'
        end as state
    from _instance_rate_v1
),

ranked as (
    select
        *,
        row_number() over (
            partition by run_id, axis, kind, size_bucket_bytes, state order by busbw_bytes_per_s
        ) as place,
        count(*) over (partition by run_id, axis, kind, size_bucket_bytes, state) as places
    from stated
)

select
    -- run
    run_id,
    -- mesh axes joined by +, or none, mixed or unclassified
    axis,
    -- kind of the collective
    kind,
    -- the largest power of two that is not above S; 0 for no bytes, NULL where S is unknown
    size_bucket_bytes,
    -- all instances
    cast(count(*) as bigint) as instances,
    -- instances that the summary is over
    cast(sum(case when state = 'known' then 1 else 0 end) as bigint) as count,
    -- instances left out because their transfer ended before any op waited for it
    cast(sum(case when state = 'bound' then 1 else 0 end) as bigint) as bound_count,
    -- instances left out because their bandwidth is not known
    cast(sum(case when state = 'unknown' then 1 else 0 end) as bigint) as unknown_count,
    -- instances, left out or not, of which a member was not traced, or whose group is not known
    cast(sum(case when participants_seen = group_size then 0 else 1 end) as bigint)
        as unseen_count,
    -- mean
    avg(case when state = 'known' then busbw_bytes_per_s end) as mean_busbw_bytes_per_s,
    -- median
    avg(
        case
            when state = 'known' and place >= (places + 1) // 2 and place <= places // 2 + 1
                then busbw_bytes_per_s
        end
    ) as p50_busbw_bytes_per_s,
    -- 95th percentile
    max(case when state = 'known' and place = (95 * places + 99) // 100 then busbw_bytes_per_s end)
        as p95_busbw_bytes_per_s,
    -- most
    max(case when state = 'known' then busbw_bytes_per_s end) as max_busbw_bytes_per_s,
    -- most of the busiest link's use, over the instances where it is known
    max(case when state = 'known' then utilization_ratio end) as max_utilization_ratio
from ranked
group by run_id, axis, kind, size_bucket_bytes
