-- one row per run and phase
-- MFU: model FLOPs / (peaks x wall time of the phase), with the gaps between steps in the wall time
-- (period_ps of device_time); SparseCores, and devices without steps beside ones with steps, are left
-- out. Model FLOPs are 2 for each weight that a
-- token meets (of experts those that it is sent to), without the embedding, which is looked up, and
-- with the head only for positions whose logits are computed; and attention_pair_flops for each
-- token and token of its context, itself included: causal pairs, p (p + 1) / 2 a sequence in a
-- prefill of p tokens, p + k in decode step k. PaLM counts full attention, twice that term. Masked
-- work, padding and recomputation do not count. They are known for prefill and decode of a model
-- whose matrices are known, where every device was traced in every pass; mfu_problem states what is
-- lacking. HFU: FLOPs of the compiled compute ops, masked work included, over the same; NULL where
-- ops of unknown FLOPs (Pallas kernels, say) ran for more than 5 % of the busy time.
with windows as (
    select *, max(step) over (partition by run_id) as last_step
    from device_time_v1
    where core is distinct from 'sparsecore'
),

kept as (
    select * from windows where step is not null or last_step is null
),

work as (
    select
        run_id, device_id, request, step,
        sum(coalesce(flops, model_flops)) as flops,
        sum(case when coalesce(flops, model_flops) is null then self_ps else 0 end) as unknown_ps
    from ops
    where category = 'compute' and coalesce(line, 'none') <> 'Async XLA Ops'
    group by run_id, device_id, request, step
),

summed as (
    select
        t.run_id, t.phase,
        count(*) as device_steps,
        case when count(t.period_ps) = count(*) then sum(t.period_ps) end as period_ps,
        sum(t.window_ps) as window_ps,
        sum(t.busy_ps) as busy_ps,
        sum(w.flops) as compiled_flops,
        sum(coalesce(w.unknown_ps, 0)) as unknown_ps,
        count(*) - count(p.peak_flops_per_s) as unknown_peaks,
        case
            when count(p.peak_flops_per_s) = count(*) and count(t.period_ps) = count(*)
                then sum(p.peak_flops_per_s * cast(t.period_ps as double)) / 1e12
        end as available_flops
    from kept as t
    left join work as w
        on w.run_id = t.run_id and w.device_id = t.device_id
        and w.request is not distinct from t.request and w.step is not distinct from t.step
    left join hardware_peaks_v1 as p on p.run_id = t.run_id and p.device_id = t.device_id
    group by t.run_id, t.phase
),

passes as (
    select
        run_id, request, step, phase,
        count(*) as devices
    from kept
    group by run_id, request, step, phase
),

forward as (
    select
        run_id, phase,
        count(*) as passes,
        min(devices) as fewest_devices,
        sum(step) as step_numbers
    from passes
    group by run_id, phase
),

models as (
    select
        run_id, expected_device_count, batch_size, prompt_tokens, attention_pair_flops,
        head_weights, logit_positions,
        whole_weights + tensor_weights + cast(
            case
                when expert_weights = 0 then 0
                else cast(expert_weights as double) * experts_per_token / nullif(experts, 0)
            end as double
        ) - 2 * head_weights as body_weights
    from runs
),

-- Sequences, tokens and causal pairs of all passes; positions with logits.
counted as (
    select
        s.*,
        f.passes, f.fewest_devices,
        m.expected_device_count, m.batch_size, m.prompt_tokens, m.attention_pair_flops,
        m.head_weights, m.body_weights,
        case
            when s.phase = 'prefill' then f.passes * cast(m.prompt_tokens as double)
            when s.phase = 'decode' then f.passes
        end as tokens,
        case
            when s.phase = 'prefill' then f.passes * cast(m.logit_positions as double)
            when s.phase = 'decode' then f.passes
        end as logits,
        case
            when s.phase = 'prefill'
                then f.passes * cast(m.prompt_tokens as double) * (m.prompt_tokens + 1) / 2
            when s.phase = 'decode'
                then f.passes * cast(m.prompt_tokens as double) + f.step_numbers
        end as pairs
    from summed as s
    left join forward as f on f.run_id = s.run_id and f.phase is not distinct from s.phase
    left join models as m on m.run_id = s.run_id
),

modelled as (
    select
        *,
        case
            when coalesce(phase, 'none') not in ('prefill', 'decode')
                then 'the tokens of the phase are not known'
            when batch_size is null or prompt_tokens is null
                then 'no manifest states the batch and its tokens'
            when body_weights is null or head_weights is null
                then 'the matrices of the model are not known'
            when attention_pair_flops is null then 'the cost of its attention is not known'
            when logits is null then 'the manifest does not state whose logits a prefill computes'
            when fewest_devices is distinct from expected_device_count
                then 'a device was not traced in every pass'
        end as model_problem,
        -- ops on several lines may add up to more than the busy time
        1 - cast(least(unknown_ps, busy_ps) as double) / nullif(cast(busy_ps as double), 0)
            as flops_known_ratio
    from counted
),

valued as (
    select
        *,
        case
            when model_problem is null
                then cast(batch_size as double) * (
                    2 * (body_weights * tokens + cast(head_weights as double) * logits)
                    + attention_pair_flops * pairs
                )
        end as model_flops
    from modelled
)

select
    -- run
    run_id,
    -- prefill, decode, mixed, warmup, compile or step; NULL outside every marker
    phase,
    -- forward passes
    cast(passes as bigint) as passes,
    -- steps of devices that were summed: passes times devices
    cast(device_steps as bigint) as device_steps,
    -- wall time: the periods of these steps, gaps between them included; NULL where one is not known
    cast(period_ps as bigint) as period_ps,
    -- length of their windows
    cast(window_ps as bigint) as window_ps,
    -- busy time in the windows
    cast(busy_ps as bigint) as busy_ps,
    -- FLOPs that the model needs
    cast(model_flops as double) as model_flops,
    -- FLOPs of the compiled ops, where known
    cast(compiled_flops as double) as compiled_flops,
    -- peak FLOPs of the devices in the wall time
    cast(available_flops as double) as available_flops,
    -- model FLOPs / peak FLOPs
    cast(model_flops as double) / nullif(cast(available_flops as double), 0) as mfu_ratio,
    -- why mfu is not known; NULL where it is
    case
        when model_problem is not null then model_problem
        when unknown_peaks > 0 then 'the peak FLOP/s of a device is not known'
        when period_ps is null then 'clocks cannot be compared, so the wall time is not known'
        when available_flops = 0 then 'the steps take no time'
    end as mfu_problem,
    -- compiled FLOPs / peak FLOPs; NULL where flops_known_ratio is below 0.95
    case
        when flops_known_ratio >= 0.95e0
            then cast(compiled_flops as double) / nullif(cast(available_flops as double), 0)
    end as hfu_ratio,
    -- share of the busy time outside ops of unknown FLOPs
    cast(flops_known_ratio as double) as flops_known_ratio
from valued
