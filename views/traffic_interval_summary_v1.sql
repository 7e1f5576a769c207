-- one row per run, axis and phase
-- The gaps of traffic_interval over all devices, by the later transfer's phase. The first transfer
-- of an axis on a device has no gap and counts nowhere. p50, p95 and p99 are the values of rows
-- ceil(p n) in order; gaps below zero are overlaps.
with ranked as (
    select
        run_id, axis, phase, gap_ps, crosses_launch,
        row_number() over (partition by summary_key order by gap_ps) as place,
        count(*) over (partition by summary_key) as places
    from _interval_v1
    where gap_ps is not null
)

select
    -- run
    run_id,
    -- mesh axes joined by +, or none, mixed or unclassified
    axis,
    -- phase of the later transfer; NULL outside every marker
    phase,
    -- gaps
    cast(count(*) as bigint) as count,
    -- gaps that start in one launch and end in another
    cast(sum(case when crosses_launch then 1 else 0 end) as bigint) as crossing_count,
    -- gaps below zero
    cast(sum(case when gap_ps < 0 then 1 else 0 end) as bigint) as overlapping_count,
    -- mean
    avg(gap_ps) as mean_ps,
    -- median
    max(case when place = (50 * places + 99) // 100 then gap_ps end) as p50_ps,
    -- 95th percentile
    max(case when place = (95 * places + 99) // 100 then gap_ps end) as p95_ps,
    -- 99th percentile
    max(case when place = (99 * places + 99) // 100 then gap_ps end) as p99_ps,
    -- least
    min(gap_ps) as min_ps,
    -- most
    max(gap_ps) as max_ps
from ranked
group by run_id, axis, phase
