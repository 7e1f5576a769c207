-- one row per run, axis, kind and size of collective
-- Percentiles of the bus bandwidths of collective_bandwidth, over all phases. A size holds the
-- payloads from a power of two up to the next. Left out, and counted: instances whose transfer is
-- only bounded, and instances whose bandwidth is not known (no bytes or time known, nothing sent by
-- a seen participant, an asynchronous one whose done ops are missing). p50 and p95 are the values
-- of rows ceil(p n) in order.
with stated as (
    select
        i.run_id, i.axis, i.kind, i.size_bucket_bytes, i.busbw_bytes_per_s,
        case
            when c.on_one_chip = 0 and not i.is_inferred
                then i.busbw_bytes_per_s / nullif(c.peak_ici_bytes_per_s, 0)
        end as utilization_ratio,
        case
            when i.is_bound then 'bound'
            when i.is_bound = false and i.busbw_bytes_per_s > 0 then 'known'
            else 'unknown'
        end as state
    from _instance_v1 as i
    left join _group_chip_v1 as c
        on c.run_id = i.run_id and c.world = i.world and c.program_id = i.program_id
        and c.op = i.op and c.group_index = i.group_index
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
    -- instances that the summary is over
    cast(sum(case when state = 'known' then 1 else 0 end) as bigint) as count,
    -- instances left out because their transfer ended before any op waited for it
    cast(sum(case when state = 'bound' then 1 else 0 end) as bigint) as bound_count,
    -- instances left out because their bandwidth is not known
    cast(sum(case when state = 'unknown' then 1 else 0 end) as bigint) as unknown_count,
    -- median
    max(case when state = 'known' and place = (50 * places + 99) // 100 then busbw_bytes_per_s end)
        as p50_busbw_bytes_per_s,
    -- 95th percentile
    max(case when state = 'known' and place = (95 * places + 99) // 100 then busbw_bytes_per_s end)
        as p95_busbw_bytes_per_s,
    -- most
    max(case when state = 'known' then busbw_bytes_per_s end) as max_busbw_bytes_per_s,
    -- most, over the peak of one ICI link, one way
    max(case when state = 'known' then utilization_ratio end) as max_utilization_ratio
from ranked
group by run_id, axis, kind, size_bucket_bytes
