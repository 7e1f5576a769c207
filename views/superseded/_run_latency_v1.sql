-- one row per run with a latency
-- Medians over the requests of latency_v1: the value of row ceil(n / 2).
with ranked as (
    select
        *,
        row_number() over (partition by run_id order by ttft_s nulls last, request) as ttft_place,
        row_number() over (partition by run_id order by tpot_s nulls last, request) as tpot_place,
        row_number() over (
            partition by run_id order by output_tokens_per_s nulls last, request
        ) as rate_place,
        count(ttft_s) over (partition by run_id) as ttfts,
        count(tpot_s) over (partition by run_id) as tpots,
        count(output_tokens_per_s) over (partition by run_id) as rates
    from latency_v1
)

select
    -- run
    run_id,
    -- source of the latencies: marker or module
    max(source) as latency_source,
    -- requests that the latencies are medians of; 0 without markers
    cast(count(request) as bigint) as requests,
    -- time to first token, median
    max(case when ttft_place = (ttfts + 1) // 2 then ttft_s end) as ttft_s,
    -- least
    min(ttft_s) as min_ttft_s,
    -- most
    max(ttft_s) as max_ttft_s,
    -- time per output token after the first, median
    max(case when tpot_place = (tpots + 1) // 2 then tpot_s end) as tpot_s,
    -- least
    min(tpot_s) as min_tpot_s,
    -- most
    max(tpot_s) as max_tpot_s,
    -- requests that have a TPOT
    cast(max(tpots) as bigint) as tpot_count,
    -- decode steps of the request of the median
    max(case when tpot_place = (tpots + 1) // 2 then decode_steps end) as decode_steps,
    -- batch size x output tokens / e2e, median
    max(case when rate_place = (rates + 1) // 2 then output_tokens_per_s end)
        as output_tokens_per_s
from ranked
group by run_id
