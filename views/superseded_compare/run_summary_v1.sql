-- one row per run
-- The setup and the headline metrics side by side, each with its sample size or coverage. Latencies
-- are medians over the requests of latency_v1 (the value of row ceil(n / 2)), with n, least and
-- most. Sums leave warm-up and compile phases out; a sum with an unknown part is NULL.
with traffic as (
    select
        run_id,
        count(*) as collectives,
        case when count(payload_bytes) = count(*) then sum(payload_bytes) end as payload_bytes,
        case when count(wire_bytes) = count(*) then sum(wire_bytes) end as wire_bytes,
        sum(case when axis = 'unclassified' then payload_bytes else 0 end) as unclassified_bytes,
        sum(payload_bytes) as known_payload_bytes
    from _collective_wire_v1
    where coalesce(phase, 'none') not in ('warmup', 'compile')
    group by run_id
),

split as (
    select
        run_id,
        sum(window_ps) as window_ps,
        sum(compute_ps) as compute_ps,
        sum(collective_ps) as collective_ps,
        sum(overlapped_ps) as overlapped_ps,
        sum(exposed_ps) as exposed_ps,
        sum(sync_wait_ps) as sync_wait_ps,
        sum(idle_ps) as idle_ps
    from comm_compute_v1
    where coalesce(phase, 'none') not in ('warmup', 'compile')
    group by run_id
),

marked as (
    select
        run_id,
        count(distinct case when phase = 'warmup' then request end)
        + count(distinct case when phase <> 'warmup' then request end) as marked_requests
    from phases
    where source = 'marker' and phase in ('prefill', 'decode', 'mixed', 'warmup')
    group by run_id
),

identified as (
    select run_id, max(case when inferred or core = 'cpu' then 1 else 0 end) as inferred
    from devices
    group by run_id
),

found as (
    select
        run_id,
        sum(case when severity = 'error' then 1 else 0 end) as issue_errors,
        sum(case when severity = 'warning' then 1 else 0 end) as issue_warnings
    from issues
    group by run_id
)

select
    -- run
    r.run_id,
    -- name of the run
    r.name,
    -- time at which profiling started
    r.captured_at,
    -- complete, partial or no_device_events
    r.status,
    -- torch_xla, jax, …
    r.framework,
    -- model
    r.model,
    -- architecture, such as qwen3
    r.model_family,
    -- hash of all chosen settings but the repeat
    r.setup,
    -- label, such as tp2.pp2
    r.parallelism,
    -- source of the mesh: setting or run; NULL without one
    m.mesh_source,
    -- why collectives cannot be given an axis; NULL where the mesh is usable
    m.mesh_problem,
    -- type of weights and activations
    r.dtype,
    -- sequences in a batch, over all devices
    r.batch_size,
    -- microbatches that a batch is split into
    r.microbatches,
    -- tokens of a prompt
    r.prompt_tokens,
    -- tokens generated for a sequence, the first included
    r.output_tokens,
    -- such as TPU v6 Lite or cpu
    r.device_kind,
    -- devices traced
    r.device_count,
    -- devices that the manifest or the programs name
    r.expected_device_count,
    -- hosts traced
    r.host_count,
    -- some device is virtual, or its identity deduced: structure valid, times not an accelerator's
    coalesce(i.inferred, 0) = 1 as inferred,
    -- from the first to the end of the last event
    r.duration_ps,
    -- collectives on all traced devices; NULL where none was traced
    cast(
        case when r.device_count > 0 and t.run_id is null then 0 else t.collectives end as bigint
    ) as collectives,
    -- sum of S over the traced devices
    cast(
        case when r.device_count > 0 and t.run_id is null then 0 else t.payload_bytes end as bigint
    ) as payload_bytes,
    -- bytes that the traced devices send
    cast(
        case when r.device_count > 0 and t.run_id is null then 0 else t.wire_bytes end as double
    ) as wire_bytes,
    -- share of the known payload whose axis is not known
    cast(t.unclassified_bytes as double) / nullif(cast(t.known_payload_bytes as double), 0)
        as unclassified_ratio,
    -- source of the latencies: marker or module
    l.latency_source,
    -- requests that the latencies are medians of
    cast(coalesce(l.requests, 0) as bigint) as requests,
    -- marked requests left out: warm-up, or a host compiled
    cast(coalesce(k.marked_requests, 0) - coalesce(l.requests, 0) as bigint) as excluded_requests,
    -- time to first token, median over requests
    l.ttft_s,
    -- least
    l.min_ttft_s,
    -- most
    l.max_ttft_s,
    -- time per output token after the first, median over requests
    l.tpot_s,
    -- least
    l.min_tpot_s,
    -- most
    l.max_tpot_s,
    -- batch size x output tokens / e2e, median over requests
    l.output_tokens_per_s,
    -- TTFT by the host's clock, mean over requests
    r.measured_ttft_s,
    -- TPOT by the host's clock, mean over requests
    r.measured_tpot_s,
    -- length of all steps' windows, over devices
    cast(s.window_ps as bigint) as window_ps,
    -- collective / compute
    cast(s.collective_ps as double) / nullif(cast(s.compute_ps as double), 0) as comm_compute_ratio,
    -- exposed / collective
    cast(s.exposed_ps as double) / nullif(cast(s.collective_ps as double), 0) as exposed_ratio,
    -- overlapped / collective
    cast(s.overlapped_ps as double) / nullif(cast(s.collective_ps as double), 0)
        as overlapped_ratio,
    -- barrier wait / window
    cast(s.sync_wait_ps as double) / nullif(cast(s.window_ps as double), 0) as sync_wait_ratio,
    -- idle / window
    cast(s.idle_ps as double) / nullif(cast(s.window_ps as double), 0) as idle_ratio,
    -- issues of severity error
    cast(coalesce(f.issue_errors, 0) as bigint) as issue_errors,
    -- issues of severity warning
    cast(coalesce(f.issue_warnings, 0) as bigint) as issue_warnings
from runs as r
left join _mesh_state_v1 as m on m.run_id = r.run_id
left join identified as i on i.run_id = r.run_id
left join traffic as t on t.run_id = r.run_id
left join split as s on s.run_id = r.run_id
left join _run_latency_v1 as l on l.run_id = r.run_id
left join marked as k on k.run_id = r.run_id
left join found as f on f.run_id = r.run_id
