-- one row per run, device, phase, program and op
-- The executions of an instruction on a device, summed. Step lines, and the line that shows async
-- copies in flight a second time, are left out. A sum with an unknown part is NULL. Only compute
-- ops have FLOPs; control ops and waits move no bytes of their own (a loop's estimate is its
-- body's). Texts are of the instruction: grouping by them is faster than finding the least of them
-- in all ops.
with summed as (
    select
        run_id, device_id, phase, program_id, op, module, opcode, category, hlo_category, component,
        min(layer) as layer,
        count(kernel) as kernels,
        count(*) as executions,
        sum(duration_ps) as duration_ps,
        sum(self_ps) as self_ps,
        count(flops) as flops_known,
        sum(flops) as flops,
        count(model_flops) as model_flops_known,
        sum(model_flops) as model_flops,
        count(bytes_accessed) as accessed_known,
        sum(bytes_accessed) as accessed_bytes,
        count(hbm_bytes) as hbm_known,
        sum(hbm_bytes) as hbm_bytes
    from ops
    where coalesce(line, 'none') not in ('Steps', 'Async XLA Ops')
    group by
        run_id, device_id, phase, program_id, op, module, opcode, category, hlo_category, component
)

select
    -- run
    run_id,
    -- device
    device_id,
    -- prefill, decode, mixed, warmup, compile or step; NULL outside every marker
    phase,
    -- compiled program
    program_id,
    -- name of the HLO instruction
    op,
    -- name of the program
    min(module) as module,
    -- HLO opcode; NULL without HLO
    min(opcode) as opcode,
    -- compute, collective, copy, host_transfer, wait or control
    min(category) as category,
    -- category as traced
    min(hlo_category) as hlo_category,
    -- index of the model's layer
    min(layer) as layer,
    -- attention, mlp, moe, embedding, head or norm
    min(component) as component,
    -- events are kernels of a GPU: one event is a whole op, of an asynchronous op too
    sum(kernels) > 0 as is_kernel,
    -- events
    cast(sum(executions) as bigint) as executions,
    -- sum of durations
    cast(sum(duration_ps) as bigint) as duration_ps,
    -- sum of durations less the ops nested in them
    cast(sum(self_ps) as bigint) as self_ps,
    -- floating point operations
    cast(
        case
            when min(category) <> 'compute' then 0
            when sum(flops_known) = sum(executions) then sum(flops)
        end as double
    ) as flops,
    -- of these, the ones that the model asked for
    cast(
        case
            when min(category) <> 'compute' then 0
            when sum(model_flops_known) = sum(executions) then sum(model_flops)
        end as double
    ) as model_flops,
    -- bytes read and written
    cast(
        case
            when min(category) in ('control', 'wait') then 0
            when sum(accessed_known) = sum(executions) then sum(accessed_bytes)
        end as double
    ) as accessed_bytes,
    -- of these, the ones in HBM
    cast(
        case
            when min(category) in ('control', 'wait') then 0
            when sum(hbm_known) = sum(executions) then sum(hbm_bytes)
        end as double
    ) as hbm_bytes
from summed
group by run_id, device_id, phase, program_id, op
