-- one row per run, scope, transition and phase
-- The windows of traffic_window from one axis to another, over all devices, by the later burst's
-- phase. p50, p95 and p99 are the values of rows ceil(p n) in order.
with ranked as (
    select
        *,
        row_number() over (
            partition by run_id, scope, from_axis, to_axis, phase order by window_ps
        ) as place,
        count(*) over (partition by run_id, scope, from_axis, to_axis, phase) as places
    from traffic_window_v1
)

select
    -- run
    run_id,
    -- device or run
    scope,
    -- axis of the earlier burst
    from_axis,
    -- axis of the later burst
    to_axis,
    -- phase of the later burst's first transfer; NULL outside every marker
    phase,
    -- windows
    cast(count(*) as bigint) as count,
    -- mean
    avg(window_ps) as mean_ps,
    -- median
    max(case when place = (50 * places + 99) // 100 then window_ps end) as p50_ps,
    -- 95th percentile
    max(case when place = (95 * places + 99) // 100 then window_ps end) as p95_ps,
    -- 99th percentile
    max(case when place = (99 * places + 99) // 100 then window_ps end) as p99_ps,
    -- least
    min(window_ps) as min_ps,
    -- most
    max(window_ps) as max_ps,
    -- bytes that the later bursts send on the wire
    cast(case when count(next_bytes) = count(*) then sum(next_bytes) end as double) as next_bytes
from ranked
group by run_id, scope, from_axis, to_axis, phase
