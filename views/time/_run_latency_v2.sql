-- one row per run with a latency
-- Headlines over the requests of _marked_latency_v1. A median is the mean of the two middle values where
-- their number is even; other percentiles are the value of row ceil(p n). System rate: the output
-- tokens of all requests over the time from the first one's start to the last one's end; NULL where
-- an end is not known, where the requests have no clock in common (_request_clock_v1), or where a warm-up or
-- a compile, whose requests do not count, falls in it.
with ranked as (
    select
        *,
        row_number() over (partition by run_id order by ttft_s nulls last, request) as ttft_place,
        row_number() over (
            partition by run_id order by request_ttft_s nulls last, request
        ) as request_ttft_place,
        row_number() over (partition by run_id order by queue_s nulls last, request) as queue_place,
        row_number() over (partition by run_id order by tpot_s nulls last, request) as tpot_place,
        row_number() over (
            partition by run_id order by output_tokens_per_s nulls last, request
        ) as rate_place,
        count(ttft_s) over (partition by run_id) as ttfts,
        count(request_ttft_s) over (partition by run_id) as request_ttfts,
        count(queue_s) over (partition by run_id) as queues,
        count(tpot_s) over (partition by run_id) as tpots,
        count(output_tokens_per_s) over (partition by run_id) as rates
    from _marked_latency_v1
),

headlines as (
    select
        run_id,
        max(source) as latency_source,
        count(request) as requests,
        min(clock_group) as clock_group,
        case
            when count(start_ps) = count(*) and min(clock_group) = max(clock_group)
                then min(start_ps)
        end as start_ps,
        case when count(end_ps) = count(*) then max(end_ps) end as end_ps,
        avg(case when ttft_place in ((ttfts + 1) // 2, (ttfts + 2) // 2) then ttft_s end)
            as ttft_s,
        max(case when ttft_place = (90 * ttfts + 99) // 100 then ttft_s end) as p90_ttft_s,
        max(case when ttft_place = (99 * ttfts + 99) // 100 then ttft_s end) as p99_ttft_s,
        min(ttft_s) as min_ttft_s,
        max(ttft_s) as max_ttft_s,
        avg(
            case
                when request_ttft_place in ((request_ttfts + 1) // 2, (request_ttfts + 2) // 2)
                    then request_ttft_s
            end
        ) as request_ttft_s,
        max(
            case
                when request_ttft_place = (90 * request_ttfts + 99) // 100 then request_ttft_s
            end
        ) as p90_request_ttft_s,
        max(
            case
                when request_ttft_place = (99 * request_ttfts + 99) // 100 then request_ttft_s
            end
        ) as p99_request_ttft_s,
        avg(case when queue_place in ((queues + 1) // 2, (queues + 2) // 2) then queue_s end)
            as queue_s,
        avg(case when tpot_place in ((tpots + 1) // 2, (tpots + 2) // 2) then tpot_s end)
            as tpot_s,
        max(case when tpot_place = (90 * tpots + 99) // 100 then tpot_s end) as p90_tpot_s,
        max(case when tpot_place = (99 * tpots + 99) // 100 then tpot_s end) as p99_tpot_s,
        min(tpot_s) as min_tpot_s,
        max(tpot_s) as max_tpot_s,
        max(tpots) as tpot_count,
        avg(
            case when rate_place in ((rates + 1) // 2, (rates + 2) // 2) then output_tokens_per_s end
        ) as output_tokens_per_s,
        max(launch_period_s) as launch_period_s,
        max(launch_period_count) as launch_period_count
    from ranked
    group by run_id
),

interrupted as (
    select h.run_id
    from headlines as h
    inner join _unmeasured_time_v1 as u
        on u.run_id = h.run_id and u.start_ps < h.end_ps and u.end_ps > h.start_ps
        and coalesce(u.clock_group = h.clock_group, true)
    group by h.run_id
),

system_rates as (
    select
        h.run_id,
        cast(h.requests * r.batch_size * r.output_tokens as double) * 1e12
            / nullif(cast(h.end_ps - h.start_ps as double), 0) as system_tokens_per_s
    from headlines as h
    inner join runs as r on r.run_id = h.run_id
    left join interrupted as i on i.run_id = h.run_id
    where i.run_id is null
)

select
    -- run
    h.run_id,
    -- source of the latencies: marker or module
    h.latency_source,
    -- requests that the latencies are medians of; 0 without markers
    cast(h.requests as bigint) as requests,
    -- time to first token from the start of the prefill, median
    h.ttft_s,
    -- 90th percentile
    h.p90_ttft_s,
    -- 99th percentile
    h.p99_ttft_s,
    -- least
    h.min_ttft_s,
    -- most
    h.max_ttft_s,
    -- time to first token from the start of the request's own marker, median
    h.request_ttft_s,
    -- 90th percentile
    h.p90_request_ttft_s,
    -- 99th percentile
    h.p99_request_ttft_s,
    -- from the start of the request's own marker to that of its prefill, median
    h.queue_s,
    -- time per output token after the first, median
    h.tpot_s,
    -- 90th percentile
    h.p90_tpot_s,
    -- 99th percentile
    h.p99_tpot_s,
    -- least
    h.min_tpot_s,
    -- most
    h.max_tpot_s,
    -- requests that have a TPOT
    cast(h.tpot_count as bigint) as tpot_count,
    -- batch size x output tokens / e2e, median
    h.output_tokens_per_s,
    -- output tokens of all requests over the time from the first start to the last end
    s.system_tokens_per_s,
    -- without markers: period of the most-launched program
    h.launch_period_s,
    -- periods that it is the mean of
    cast(h.launch_period_count as bigint) as launch_period_count
from headlines as h
left join system_rates as s on s.run_id = h.run_id
