-- one row per run, scope, transition and phase
-- The windows of traffic_window from one axis to another, over all members of a scope, by the
-- later burst's phase. p50 is the middle row, or the mean of the two middle rows rounded down to the
-- picosecond; p95 and p99 are the values of rows ceil(p n) in order.
with windows as (
    select
        line_key, from_axis_key, axis_key, phase,
        start_ps - from_end_ps as window_ps,
        bytes as next_bytes
    from _burst_v2
    where from_axis_key is not null
),

ranked as (
    select
        *,
        row_number() over (
            partition by line_key, from_axis_key, axis_key, phase order by window_ps
        ) as place,
        count(*) over (partition by line_key, from_axis_key, axis_key, phase) as places
    from windows
),

summed as (
    select
        line_key, from_axis_key, axis_key, phase,
        count(*) as count,
        avg(window_ps) as mean_ps,
        max(case when place = (places + 1) // 2 then window_ps end) as lower_ps,
        max(case when place = places // 2 + 1 then window_ps end) as upper_ps,
        max(case when place = (95 * places + 99) // 100 then window_ps end) as p95_ps,
        max(case when place = (99 * places + 99) // 100 then window_ps end) as p99_ps,
        min(window_ps) as min_ps,
        max(window_ps) as max_ps,
        case when count(next_bytes) = count(*) then sum(next_bytes) end as next_bytes
    from ranked
    group by line_key, from_axis_key, axis_key, phase
)

select
    -- run
    a.run_id,
    -- device, run, group or rail
    l.scope,
    -- axis of the earlier burst
    f.axis as from_axis,
    -- axis of the later burst
    a.axis as to_axis,
    -- phase of the later burst's first transfer; NULL outside every marker
    s.phase,
    -- windows
    cast(s.count as bigint) as count,
    -- mean
    s.mean_ps,
    -- median
    s.lower_ps + (s.upper_ps - s.lower_ps) // 2 as p50_ps,
    -- 95th percentile
    s.p95_ps,
    -- 99th percentile
    s.p99_ps,
    -- least
    s.min_ps,
    -- most
    s.max_ps,
    -- bytes that the later bursts send on the wire
    cast(s.next_bytes as double) as next_bytes
from summed as s
inner join _line_v1 as l on l.line_key = s.line_key
inner join _axis_key_v1 as f on f.axis_key = s.from_axis_key
inner join _axis_key_v1 as a on a.axis_key = s.axis_key
