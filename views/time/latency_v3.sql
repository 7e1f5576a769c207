-- one row per run and request, and one for a run without markers of requests
-- As latency_v2, for the requests that markers name one by one; and the requests of servers
-- (source = server), several of which share a step. Of these, TTFT runs from the start of the first
-- step's marker on the host to the end of the step in which the prompt is complete (a prompt in chunks
-- takes several), and TPOT divides the time from there to the end of the last step that is seen by the
-- output tokens in it, not by steps. Of a request that began before the trace, TPOT counts from the end
-- of its first step that is seen. e2e needs a request that is seen to begin and to end. What rests on
-- tokens that the trace does not state by request is NULL, and `reason` says so. Percentiles of step
-- times of servers are in serving_batch, as requests share steps. Where no collective connects the clocks of
-- a run, a marked request counts on each group of clocks from its own first marker there, and TTFT and e2e are the
-- largest over groups; a server's request whose steps are of several groups has no times.
with servers as (
    select run_id from phases where source = 'server' group by run_id
),

requests as (
    select
        r.run_id, r.request, 'server' as source, r.decode_steps, r.output_tokens,
        coalesce(r.request_start_ps, r.start_ps) as start_ps,
        r.end_ps,
        cast(r.start_ps - r.request_start_ps as double) / 1e12 as queue_s,
        cast(r.first_token_ps - r.start_ps as double) / 1e12 as ttft_s,
        cast(r.first_token_ps - r.request_start_ps as double) / 1e12 as request_ttft_s,
        r.tpot_s,
        case when r.is_whole then cast(r.end_ps - r.start_ps as double) / 1e12 end
            as e2e_s,
        r.reason
    from _served_request_v1 as r
),

named as (
    select run_id from served_requests group by run_id
),

-- A server whose steps name no request has no requests to give latencies of.
nameless as (
    select s.run_id
    from servers as s
    left join named as b on b.run_id = s.run_id
    where b.run_id is null
),

timed as (
    select
        l.run_id, l.request, l.source, l.start_ps, l.end_ps, l.queue_s, l.ttft_s, l.request_ttft_s,
        l.tpot_s, l.e2e_s, l.decode_steps, cast(null as bigint) as output_tokens,
        l.output_tokens_per_s, l.decode_tokens_per_s, l.p50_step_s, l.p90_step_s, l.p95_step_s,
        l.p99_step_s, l.launch_period_s, l.launch_period_count,
        case
            when n.run_id is not null then 'the steps of the server name no request'
            else l.reason
        end as reason,
        l.measured_ttft_s, l.measured_tpot_s
    from _marked_latency_v1 as l
    left join servers as s on s.run_id = l.run_id
    left join nameless as n on n.run_id = l.run_id
    where s.run_id is null or l.source = 'marker' or n.run_id is not null
    union all
    select
        r.run_id, r.request, r.source, r.start_ps, r.end_ps, r.queue_s, r.ttft_s, r.request_ttft_s,
        r.tpot_s, r.e2e_s, r.decode_steps, r.output_tokens,
        cast(r.output_tokens as double) / nullif(r.e2e_s, 0) as output_tokens_per_s,
        1.0e0 / nullif(r.tpot_s, 0) as decode_tokens_per_s,
        cast(null as double) as p50_step_s,
        cast(null as double) as p90_step_s,
        cast(null as double) as p95_step_s,
        cast(null as double) as p99_step_s,
        cast(null as double) as launch_period_s,
        cast(null as bigint) as launch_period_count,
        r.reason,
        g.measured_ttft_s,
        g.measured_tpot_s
    from requests as r
    left join runs as g on g.run_id = r.run_id
)

select
    -- run
    l.run_id,
    -- request; NULL without markers of requests
    l.request,
    -- marker, server or module
    l.source,
    -- start of the request's own marker on the host, else of its first step's; of several clocks that cannot be
    -- compared, by the one whose name is the last
    l.start_ps,
    -- end of its last step over all devices; of a server's request of the last that is seen
    l.end_ps,
    -- from the start of the request's own marker to that of its first step; NULL without such a marker
    l.queue_s,
    -- time to first token, from the start of the prefill
    l.ttft_s,
    -- time to first token with the time in the queue; NULL without a marker of the request
    l.request_ttft_s,
    -- time per output token after the first
    l.tpot_s,
    -- from the start of the prefill to the end of the last step
    l.e2e_s,
    -- steps that TPOT is the mean of, each of one token but for servers that speculate; NULL without
    -- markers
    l.decode_steps,
    -- output tokens of a server's request in the steps that are seen; NULL else, and where not known
    l.output_tokens,
    -- batch size x output tokens / e2e; of a server's request its output tokens / e2e
    l.output_tokens_per_s,
    -- batch size / TPOT; of a server's request 1 / TPOT
    l.decode_tokens_per_s,
    -- median time from decode step to decode step; NULL of servers
    l.p50_step_s,
    -- 90th percentile of it
    l.p90_step_s,
    -- 95th percentile of it
    l.p95_step_s,
    -- 99th percentile of it
    l.p99_step_s,
    -- without markers: mean time from end to end of the most-launched program's launch instances
    l.launch_period_s,
    -- how many such periods it is the mean of
    l.launch_period_count,
    -- why TTFT or TPOT is NULL; NULL where both are known
    l.reason,
    -- TTFT by the host's clock, mean over the run's requests
    l.measured_ttft_s,
    -- TPOT by the host's clock, mean over the run's requests
    l.measured_tpot_s
from timed as l
