-- one row per run, phase, program and op
-- Device time by instruction, summed over devices and executions. Each instant of a line belongs to
-- the innermost op on it, so self times of a line's ops never overlap. Halves of an async pair are
-- rows of their own, with the time that each of them ran. Step lines, and the line that shows async
-- copies in flight a second time, are left out. Sums with an unknown part are NULL. Group by
-- kernel, source_line, layer or component as needed.
with sources as (
    select
        run_id, program_id, op,
        min(framework_op) as framework_op,
        min(source_file) as source_file,
        min(source_line) as source_line
    from instructions
    group by run_id, program_id, op
),

summed as (
    select
        run_id, phase, program_id, op,
        min(module) as module,
        min(opcode) as opcode,
        min(category) as category,
        min(hlo_category) as hlo_category,
        case
            when count(layer) = count(*) and min(layer) = max(layer) then min(layer)
        end as layer,
        min(component) as component,
        count(*) as devices,
        sum(executions) as executions,
        sum(duration_ps) as duration_ps,
        sum(self_ps) as self_ps,
        case when count(flops) = count(*) then sum(flops) end as flops,
        case when count(model_flops) = count(*) then sum(model_flops) end as model_flops,
        case when count(accessed_bytes) = count(*) then sum(accessed_bytes) end as accessed_bytes,
        case when count(hbm_bytes) = count(*) then sum(hbm_bytes) end as hbm_bytes
    from _op_total_v1
    group by run_id, phase, program_id, op
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
    -- compiled program
    s.program_id,
    -- name of the program
    s.module,
    -- name of the HLO instruction, or of a wait
    s.op,
    -- its name without trailing numbers: instances of one kernel have one, such as `fusion`
    regexp_extract(s.op, '^(.+?)([._][0-9]+)*$', 1) as kernel,
    -- HLO opcode; NULL without HLO
    s.opcode,
    -- compute, collective, copy, host_transfer, wait or control
    s.category,
    -- category as traced
    s.hlo_category,
    -- index of the model's layer; NULL where devices run it for different layers
    s.layer,
    -- attention, mlp, moe, embedding, head or norm
    s.component,
    -- op_name of the framework
    i.framework_op,
    -- file of the framework's code
    i.source_file,
    -- line in that file
    i.source_line,
    -- devices that executed it
    cast(s.devices as bigint) as devices,
    -- executions, over devices
    cast(s.executions as bigint) as executions,
    -- sum of durations
    cast(s.duration_ps as bigint) as duration_ps,
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
left join sources as i
    on i.run_id = s.run_id and i.program_id = s.program_id and i.op = s.op
