-- one row per run, axis and phase
-- The gaps of traffic_interval over all devices, by the later transfer's phase. The first transfer
-- of an axis on a device has no gap and does not count. p50 is the middle row, or
-- the mean of the two middle rows rounded down to the picosecond; p95 and p99 are the values of rows
-- ceil(p n) in order. Gaps below zero are overlaps.
with ranked as (
    select
        summary_key, gap_ps, crosses_launch,
        row_number() over (partition by summary_key order by gap_ps) as place,
        count(*) over (partition by summary_key) as places
    from _interval_v1
    where gap_ps is not null
),

summed as (
    select
        summary_key,
        count(*) as count,
        sum(case when crosses_launch then 1 else 0 end) as crossing_count,
        sum(case when gap_ps < 0 then 1 else 0 end) as overlapping_count,
        avg(gap_ps) as mean_ps,
        max(case when place = (places + 1) // 2 then gap_ps end) as lower_ps,
        max(case when place = places // 2 + 1 then gap_ps end) as upper_ps,
        max(case when place = (95 * places + 99) // 100 then gap_ps end) as p95_ps,
        max(case when place = (99 * places + 99) // 100 then gap_ps end) as p99_ps,
        min(gap_ps) as min_ps,
        max(gap_ps) as max_ps
    from ranked
    group by summary_key
),

labels as (
    select a.run_id, a.axis, p.phase, a.axis_key + p.phase_number as summary_key
    from _axis_key_v1 as a
    inner join _phase_number_v1 as p on p.run_id = a.run_id
)

select
    -- run
    l.run_id,
    -- mesh axes joined by +, or none, mixed or unclassified
    l.axis,
    -- phase of the later transfer; NULL outside every marker
    l.phase,
    -- gaps
    cast(s.count as bigint) as count,
    -- gaps that start in one launch and end in another
    cast(s.crossing_count as bigint) as crossing_count,
    -- gaps below zero
    cast(s.overlapping_count as bigint) as overlapping_count,
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
    s.max_ps
from summed as s
inner join labels as l on l.summary_key = s.summary_key
