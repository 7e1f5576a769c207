-- one row per run and request, and one for a run without markers
-- TTFT: start of the prefill marker on the host to the end of the last prefill op over all devices.
-- TPOT: (end of the last decode step - end of prefill) / decode steps. e2e: TTFT's start to the last
-- step's end. What the trace does not give is NULL, and `reason` says why. Warm-up requests and
-- requests during which a host compiles are left out (run_summary counts them). The median of decode
-- steps is the mean of the two middle ones where their number is even; other percentiles are the
-- value of row ceil(p n). The host clock's values are means over the run's requests. A run without
-- markers (source = module) has no requests, so neither TTFT nor TPOT: its row has the period of the
-- program with the most launch instances (of two with equally many, the one that took longer, then
-- the lower program_id). Such a period need not be a token's. All is NULL where clocks cannot be
-- compared (table clocks).
select
    -- run
    run_id,
    -- request; NULL without markers
    request,
    -- marker or module
    source,
    -- start of the request's own marker on the host, else of its prefill's
    start_ps,
    -- end of its last step over all devices
    end_ps,
    -- from the start of the request's own marker to that of its prefill; NULL without such a marker
    queue_s,
    -- time to first token, from the start of the prefill
    ttft_s,
    -- time to first token with the time in the queue; NULL without a marker of the request
    request_ttft_s,
    -- time per output token after the first
    tpot_s,
    -- from the start of the prefill to the end of the last step
    e2e_s,
    -- decode steps that TPOT is the mean of; NULL without markers
    decode_steps,
    -- batch size x output tokens / e2e
    output_tokens_per_s,
    -- batch size / TPOT
    decode_tokens_per_s,
    -- median time from decode step to decode step
    p50_step_s,
    -- 90th percentile of it
    p90_step_s,
    -- 95th percentile of it
    p95_step_s,
    -- 99th percentile of it
    p99_step_s,
    -- without markers: mean time from end to end of the most-launched program's launch instances
    launch_period_s,
    -- how many such periods it is the mean of
    launch_period_count,
    -- why TTFT or TPOT is NULL; NULL where both are known
    reason,
    -- TTFT by the host's clock, mean over the run's requests
    measured_ttft_s,
    -- TPOT by the host's clock, mean over the run's requests
    measured_tpot_s
from _marked_latency_v1
