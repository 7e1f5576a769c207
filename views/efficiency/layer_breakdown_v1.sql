-- one row per run, phase, layer, component and category of op
-- Device time by part of the model, summed over devices. layer is the model's own number, in a
-- stage-stacked pipeline too. layer and component are NULL for ops outside every module scope.
-- FLOPs and bytes with an unknown part are NULL.
with summed as (
    select
        run_id, phase, layer, component, category,
        sum(executions) as executions,
        sum(self_ps) as self_ps,
        case when count(flops) = count(*) then sum(flops) end as flops,
        case when count(model_flops) = count(*) then sum(model_flops) end as model_flops,
        case when count(accessed_bytes) = count(*) then sum(accessed_bytes) end as accessed_bytes,
        case when count(hbm_bytes) = count(*) then sum(hbm_bytes) end as hbm_bytes
    from _op_total_v1
    group by run_id, phase, layer, component, category
),

phases as (
    select run_id, phase, sum(self_ps) as phase_self_ps
    from summed
    group by run_id, phase
)

select
    -- run
    s.run_id,
    -- prefill, decode, mixed, warmup, compile or step; NULL outside every marker
    s.phase,
    -- index of the model's layer
    s.layer,
    -- attention, mlp, moe, embedding, head or norm
    s.component,
    -- compute, collective, copy, host_transfer, wait or control
    s.category,
    -- events of ops, over devices
    cast(s.executions as bigint) as executions,
    -- sum of durations less the ops nested in them
    cast(s.self_ps as bigint) as self_ps,
    -- share of the phase's self time
    cast(s.self_ps as double) / nullif(cast(p.phase_self_ps as double), 0) as self_ratio,
    -- floating point operations of compute ops; NULL where unknown
    cast(s.flops as double) as flops,
    -- of these, the ones that the model asked for
    cast(s.model_flops as double) as model_flops,
    -- bytes read and written, as the compiler estimates
    cast(s.accessed_bytes as double) as accessed_bytes,
    -- of these, the ones in HBM
    cast(s.hbm_bytes as double) as hbm_bytes
from summed as s
inner join phases as p on p.run_id = s.run_id and p.phase is not distinct from s.phase
