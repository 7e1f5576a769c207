-- one row per setup, and per run whose setup is not known
-- Repeats of a setup side by side: medians over its runs (the value of row ceil(n / 2)) with the
-- spread, greatest less least; a spread is NULL with one run. A run counts for the metrics that it
-- has. The settings are those of the setup's run that was captured last.
with keyed as (
    select
        *,
        coalesce(setup, concat('run ', run_id)) as setup_key
    from runs
),

placed as (
    select
        *,
        row_number() over (
            partition by setup_key order by captured_at desc nulls last, run_id desc
        ) as place,
        count(*) over (partition by setup_key) as runs
    from keyed
),

identified as (
    select run_id, max(case when inferred or core = 'cpu' then 1 else 0 end) as inferred
    from devices
    group by run_id
),

metrics as (
    select
        setup_key,
        max(case when metric = 'ttft_s' then runs end) as ttft_count,
        max(case when metric = 'ttft_s' then median end) as ttft_s,
        max(case when metric = 'ttft_s' then spread end) as ttft_spread_s,
        max(case when metric = 'tpot_s' then runs end) as tpot_count,
        max(case when metric = 'tpot_s' then median end) as tpot_s,
        max(case when metric = 'tpot_s' then spread end) as tpot_spread_s,
        max(case when metric = 'output_tokens_per_s' then median end) as output_tokens_per_s,
        max(case when metric = 'output_tokens_per_s' then spread end)
            as output_tokens_spread_per_s,
        max(case when metric = 'comm_compute_ratio' then median end) as comm_compute_ratio,
        max(case when metric = 'exposed_ratio' then median end) as exposed_ratio,
        max(case when metric = 'exposed_ratio' then spread end) as exposed_spread_ratio,
        max(case when metric = 'sync_wait_ratio' then median end) as sync_wait_ratio,
        max(case when metric = 'idle_ratio' then median end) as idle_ratio,
        max(case when metric = 'idle_ratio' then spread end) as idle_spread_ratio,
        max(case when metric = 'wire_bytes' then median end) as wire_bytes
    from _run_metric_v1
    group by setup_key
)

select
    -- hash of all chosen settings but the repeat; NULL where unknown
    p.setup,
    -- run of the setup that was captured last
    p.run_id,
    -- name of that run
    p.name,
    -- runs of the setup
    cast(p.runs as bigint) as runs,
    -- model
    p.model,
    -- label, such as tp2.pp2
    p.parallelism,
    -- type of weights and activations
    p.dtype,
    -- sequences in a batch, over all devices
    p.batch_size,
    -- microbatches that a batch is split into
    p.microbatches,
    -- tokens of a prompt
    p.prompt_tokens,
    -- tokens generated for a sequence, the first included
    p.output_tokens,
    -- such as TPU v6 Lite or cpu
    p.device_kind,
    -- devices traced
    p.device_count,
    -- some device is virtual, or its identity deduced: structure valid, times not an accelerator's
    coalesce(i.inferred, 0) = 1 as inferred,
    -- runs that have a TTFT
    cast(coalesce(m.ttft_count, 0) as bigint) as ttft_count,
    -- time to first token, median
    m.ttft_s,
    -- its spread
    m.ttft_spread_s,
    -- runs that have a TPOT
    cast(coalesce(m.tpot_count, 0) as bigint) as tpot_count,
    -- time per output token after the first, median
    m.tpot_s,
    -- its spread
    m.tpot_spread_s,
    -- batch size x output tokens / e2e, median
    m.output_tokens_per_s,
    -- its spread
    m.output_tokens_spread_per_s,
    -- collective / compute, median
    m.comm_compute_ratio,
    -- exposed / collective, median
    m.exposed_ratio,
    -- its spread
    m.exposed_spread_ratio,
    -- barrier wait / window, median
    m.sync_wait_ratio,
    -- idle / window, median
    m.idle_ratio,
    -- its spread
    m.idle_spread_ratio,
    -- bytes that the traced devices send, median
    m.wire_bytes
from placed as p
left join identified as i on i.run_id = p.run_id
left join metrics as m on m.setup_key = p.setup_key
where p.place = 1
