-- one row per run and phase
-- Model FLOPs / (peaks x windows), idle time included; SparseCores are left out. Model FLOPs are
-- the compiler's count for the compute ops of a step (model_flops, else flops), on masked
-- microbatches too; control ops and collectives add none. Where ops of unknown FLOPs (Pallas
-- kernels, say) ran for more than 5 % of the busy time, mfu is NULL. mfu_analytic takes its FLOPs
-- from the model: 2 x active weights x tokens, and attention_pair_flops for each token and token of
-- its context (itself included): p (p + 1) / 2 pairs a sequence in a prefill of p tokens, p + k in
-- decode step k. It is known for prefill and decode where every device of the run was traced in
-- every pass. Windows are those of device_time. Virtual devices have neither.
with work as (
    select
        run_id, device_id, request, step,
        sum(coalesce(model_flops, flops)) as model_flops,
        sum(case when coalesce(model_flops, flops) is null then self_ps else 0 end) as unknown_ps
    from ops
    where category = 'compute' and coalesce(line, 'none') <> 'Async XLA Ops'
    group by run_id, device_id, request, step
),

passes as (
    select
        run_id, request, step, phase,
        count(*) as devices
    from device_time_v1
    where core is distinct from 'sparsecore'
    group by run_id, request, step, phase
),

forward as (
    select
        p.run_id, p.phase,
        count(*) as passes,
        min(p.devices) as fewest_devices,
        sum(case when p.phase = 'prefill' then 0 else p.step end) as decoded_tokens
    from passes as p
    group by p.run_id, p.phase
),

summed as (
    select
        t.run_id, t.phase,
        count(*) as device_steps,
        sum(t.window_ps) as window_ps,
        sum(t.busy_ps) as busy_ps,
        sum(w.model_flops) as model_flops,
        sum(coalesce(w.unknown_ps, 0)) as unknown_ps,
        case
            when count(p.peak_flops_per_s) = count(*)
                then sum(p.peak_flops_per_s * cast(t.window_ps as double)) / 1e12
        end as available_flops
    from device_time_v1 as t
    left join work as w
        on w.run_id = t.run_id and w.device_id = t.device_id
        and w.request is not distinct from t.request and w.step is not distinct from t.step
    left join hardware_peaks_v1 as p on p.run_id = t.run_id and p.device_id = t.device_id
    where t.core is distinct from 'sparsecore'
    group by t.run_id, t.phase
),

known as (
    select
        s.*,
        -- ops on several lines may add up to more than the busy time
        1 - cast(least(s.unknown_ps, s.busy_ps) as double) / nullif(cast(s.busy_ps as double), 0)
            as flops_known_ratio,
        f.passes,
        case when f.fewest_devices = r.expected_device_count then r.batch_size end as batch_size,
        r.active_parameters,
        r.attention_pair_flops,
        r.prompt_tokens,
        f.decoded_tokens
    from summed as s
    left join forward as f on f.run_id = s.run_id and f.phase is not distinct from s.phase
    left join runs as r on r.run_id = s.run_id
),

modelled as (
    select
        *,
        case
            when phase = 'prefill'
                then cast(batch_size as double) * passes * (
                    2 * cast(active_parameters as double) * prompt_tokens
                    + attention_pair_flops * prompt_tokens * (prompt_tokens + 1) / 2
                )
            when phase = 'decode'
                then cast(batch_size as double) * (
                    2 * cast(active_parameters as double) * passes
                    + attention_pair_flops * (
                        cast(prompt_tokens as double) * passes + decoded_tokens
                    )
                )
        end as analytic_flops
    from known
)

select
    -- run
    run_id,
    -- prefill, decode, mixed, warmup, compile or step; NULL outside every marker
    phase,
    -- forward passes
    cast(passes as bigint) as passes,
    -- windows that were summed: passes times devices
    cast(device_steps as bigint) as device_steps,
    -- length of the windows
    cast(window_ps as bigint) as window_ps,
    -- busy time in the windows
    cast(busy_ps as bigint) as busy_ps,
    -- FLOPs by the compiler's count, where known
    cast(model_flops as double) as model_flops,
    -- peak FLOPs of the devices in the windows
    cast(available_flops as double) as available_flops,
    -- share of the busy time outside ops of unknown FLOPs
    cast(flops_known_ratio as double) as flops_known_ratio,
    -- model FLOPs / peak FLOPs; NULL where flops_known_ratio is below 0.95
    case
        when flops_known_ratio >= 0.95e0
            then cast(model_flops as double) / nullif(cast(available_flops as double), 0)
    end as mfu_ratio,
    -- FLOPs of the phase by the model's sizes
    cast(analytic_flops as double) as analytic_flops,
    -- analytic FLOPs / peak FLOPs
    cast(analytic_flops as double) / nullif(cast(available_flops as double), 0)
        as mfu_analytic_ratio
from modelled
