-- one row per run of a server
-- Throughput, latencies and the limits that a user sets (`xlahouse set limits RUN ttft=0.5,tpot=0.05`).
-- Times are from the start of the first step's marker to the end of the last step; NULL, with wall_problem, where
-- the trace lacks that end, or steps are of clocks that cannot be compared. Medians of an even number are the
-- mean of the two middle values; other percentiles are the value of row ceil(p n). A request is judged
-- where every limit that is set can be compared with it: one of a single output token has no TPOT to
-- compare. It is good if it exceeds none. Requests during which a host compiled, or a warm-up ran, are
-- left out of everything about requests.
with passes as (
    select
        run_id,
        count(*) as steps,
        sum(case when phase = 'prefill' then 1 else 0 end) as prefill_steps,
        sum(case when phase = 'decode' then 1 else 0 end) as decode_steps,
        sum(case when phase = 'mixed' then 1 else 0 end) as mixed_steps,
        sum(tokens) as tokens,
        avg(cast(requests as double)) as mean_requests,
        max(requests) as most_requests,
        cast(sum(host_gap_ps) as double)
            / nullif(sum(case when host_gap_ps is not null then all_period_ps end), 0)
            as host_bound_ratio,
        cast(sum(least_prompt_tokens) as double) / nullif(sum(tokens), 0) as least_ratio,
        cast(sum(most_prompt_tokens) as double) / nullif(sum(tokens), 0) as most_ratio
    from _server_pass_v1
    group by run_id
),

ambiguous as (
    select run_id
    from clocks
    where state = 'ambiguous'
    group by run_id
),

spans as (
    select
        run_id,
        min(start_ps) as start_ps,
        max(end_ps) as end_ps,
        max(start_ps) as last_start_ps,
        max(case when end_ps is null then start_ps end) as last_lost_ps,
        count(clock_group) = count(*) and min(clock_group) = max(clock_group) as has_one_clock
    from _server_time_v1
    group by run_id
),

judged_spans as (
    select
        s.run_id, s.start_ps, s.end_ps,
        case
            when a.run_id is not null or not s.has_one_clock
                then 'the clocks of devices and hosts cannot be compared'
            when s.last_lost_ps = s.last_start_ps then 'the trace lacks the ops of the last step'
        end as wall_problem
    from spans as s
    left join ambiguous as a on a.run_id = s.run_id
),

walls as (
    select
        run_id, wall_problem,
        cast(case when wall_problem is null then end_ps - start_ps end as double) / 1e12 as wall_s
    from judged_spans
),

requests as (
    select
        l.run_id, l.request, l.ttft_s, l.request_ttft_s, l.queue_s, l.tpot_s, l.output_tokens,
        l.decode_steps, s.ttft_limit_s, s.tpot_limit_s,
        case
            when s.ttft_limit_s is null and s.tpot_limit_s is null then null
            when s.ttft_limit_s is not null and coalesce(l.request_ttft_s, l.ttft_s) is null then null
            when s.tpot_limit_s is not null and l.tpot_s is null
                and (l.output_tokens is null or l.output_tokens <> 1) then null
            when coalesce(l.request_ttft_s, l.ttft_s) > s.ttft_limit_s then 0
            when l.tpot_s > s.tpot_limit_s then 0
            else 1
        end as good
    from latency_v3 as l
    left join run_settings as s on s.run_id = l.run_id
    where l.source = 'server' and l.request is not null
),

ranked as (
    select
        *,
        row_number() over (partition by run_id order by ttft_s nulls last, request) as ttft_place,
        row_number() over (partition by run_id order by tpot_s nulls last, request) as tpot_place,
        row_number() over (partition by run_id order by queue_s nulls last, request) as queue_place,
        count(ttft_s) over (partition by run_id) as ttfts,
        count(tpot_s) over (partition by run_id) as tpots,
        count(queue_s) over (partition by run_id) as queues
    from requests
),

latencies as (
    select
        run_id,
        count(*) as requests,
        max(ttfts) as ttft_count,
        avg(case when ttft_place in ((ttfts + 1) // 2, (ttfts + 2) // 2) then ttft_s end) as p50_ttft_s,
        max(case when ttft_place = (90 * ttfts + 99) // 100 then ttft_s end) as p90_ttft_s,
        max(case when ttft_place = (99 * ttfts + 99) // 100 then ttft_s end) as p99_ttft_s,
        max(tpots) as tpot_count,
        avg(case when tpot_place in ((tpots + 1) // 2, (tpots + 2) // 2) then tpot_s end) as p50_tpot_s,
        max(case when tpot_place = (90 * tpots + 99) // 100 then tpot_s end) as p90_tpot_s,
        max(case when tpot_place = (99 * tpots + 99) // 100 then tpot_s end) as p99_tpot_s,
        avg(case when queue_place in ((queues + 1) // 2, (queues + 2) // 2) then queue_s end)
            as p50_queue_s,
        case when count(output_tokens) = count(*) then sum(output_tokens) end as output_tokens,
        max(ttft_limit_s) as ttft_limit_s,
        max(tpot_limit_s) as tpot_limit_s,
        count(good) as judged,
        sum(good) as good
    from ranked
    group by run_id
)

select
    -- run
    p.run_id,
    -- steps
    cast(p.steps as bigint) as steps,
    -- of these, steps that only prefill
    cast(p.prefill_steps as bigint) as prefill_steps,
    -- steps that only decode
    cast(p.decode_steps as bigint) as decode_steps,
    -- steps that do both
    cast(p.mixed_steps as bigint) as mixed_steps,
    -- requests in a step, mean over steps
    p.mean_requests,
    -- most requests in a step
    p.most_requests,
    -- from the start of the first step's marker to the end of the last step
    w.wall_s,
    -- why that time, and rates over it, are not known; NULL where they are
    w.wall_problem,
    -- tokens of all steps, those of prompts included, over that time
    cast(p.tokens as double) / nullif(w.wall_s, 0) as tokens_per_s,
    -- output tokens of all requests over that time; NULL where those of a request are not known
    cast(l.output_tokens as double) / nullif(w.wall_s, 0) as output_tokens_per_s,
    -- least share of all tokens that may be of prompts: tokens of unknown kind count as none
    p.least_ratio as prefill_least_ratio,
    -- most share of all tokens that may be of prompts: tokens of unknown kind count as all
    p.most_ratio as prefill_most_ratio,
    -- the name that tpu-inference's profiler gives such a share: prefill_heavy (at least 0.9), balanced
    -- (0.4 to 0.6), decode_heavy (at most 0.2), ambiguous (any other); NULL where the trace does not tell
    case
        when p.least_ratio >= 0.9e0 then 'prefill_heavy'
        when p.most_ratio <= 0.2e0 then 'decode_heavy'
        when p.least_ratio >= 0.4e0 and p.most_ratio <= 0.6e0 then 'balanced'
        when (p.least_ratio > 0.2e0 and p.most_ratio < 0.4e0)
            or (p.least_ratio > 0.6e0 and p.most_ratio < 0.9e0) then 'ambiguous'
    end as profile,
    -- share of the devices' time in which the host was late: no launch was open, in gaps longer than
    -- 10 us, while requests were; NULL of virtual devices
    p.host_bound_ratio,
    -- requests that steps name
    cast(coalesce(l.requests, 0) as bigint) as requests,
    -- requests whose TTFT is known
    cast(coalesce(l.ttft_count, 0) as bigint) as ttft_count,
    -- time to first token from the start of the first step, median
    l.p50_ttft_s,
    -- 90th percentile
    l.p90_ttft_s,
    -- 99th percentile
    l.p99_ttft_s,
    -- requests whose TPOT is known
    cast(coalesce(l.tpot_count, 0) as bigint) as tpot_count,
    -- time per output token after the first, median
    l.p50_tpot_s,
    -- 90th percentile
    l.p90_tpot_s,
    -- 99th percentile
    l.p99_tpot_s,
    -- from the start of the request's own marker to its first step, median; NULL without such markers
    l.p50_queue_s,
    -- limit on the time to first token, with the time in the queue where it is known; NULL: none is set
    l.ttft_limit_s,
    -- limit on the time per output token; NULL: none is set
    l.tpot_limit_s,
    -- requests that can be compared with every limit; NULL without limits
    cast(case when coalesce(l.ttft_limit_s, l.tpot_limit_s) is not null then l.judged end as bigint)
        as judged_requests,
    -- of these, the ones that exceed none
    cast(l.good as bigint) as good_requests,
    -- good requests over the time of all steps: goodput
    cast(l.good as double) / nullif(w.wall_s, 0) as good_requests_per_s,
    -- good requests / judged requests
    cast(l.good as double) / nullif(l.judged, 0) as good_ratio
from passes as p
left join walls as w on w.run_id = p.run_id
left join latencies as l on l.run_id = p.run_id
