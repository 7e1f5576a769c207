-- one row per program and scheduled instruction with a cost: cycles, FLOPs or HBM bytes
-- What the compiler expects beside the best that the chip could do, in one execution of the program:
-- T_math = flops / peak and T_hbm = HBM bytes / peak. Nothing here is measured. The compiler states no
-- clock, so its cycles are not a time. Copies between HBM and VMEM that run beside the program are
-- instructions of their own: a fusion that reads its weights from VMEM has few HBM bytes, so compare
-- sums over a program. FLOPs of kernels (custom calls) are not known, nor is their bound. Collectives
-- have no FLOPs and no HBM bytes here: planned_traffic has the bytes that they move.
with peaks as (
    select
        run_id,
        case when min(peak_flops_per_s) = max(peak_flops_per_s) then min(peak_flops_per_s) end
            as flops_per_s,
        case
            when min(peak_hbm_bytes_per_s) = max(peak_hbm_bytes_per_s)
                then min(peak_hbm_bytes_per_s)
        end as hbm_bytes_per_s
    from hardware_peaks_v1
    group by run_id
),

costs as (
    select
        i.run_id, i.world, i.program_id, i.module, i.op, i.opcode, i.layer, i.component,
        i.framework_op, i.executions,
        i.executions * i.estimated_cycles as cycles,
        cast(i.executions * i.flops as double) as flops,
        cast(i.executions * i.hbm_bytes as double) as hbm_bytes,
        cast(i.executions * i.flops as double) / nullif(p.flops_per_s, 0) * 1e12 as math_ps,
        cast(i.executions * i.hbm_bytes as double) / nullif(p.hbm_bytes_per_s, 0) * 1e12 as hbm_ps
    from instructions as i
    left join peaks as p on p.run_id = i.run_id
    where i.schedule_index is not null
        and (i.estimated_cycles is not null or i.flops > 0 or i.hbm_bytes > 0)
),

bounds as (
    select
        *,
        case when math_ps is not null and hbm_ps is not null then greatest(math_ps, hbm_ps) end
            as bound_ps
    from costs
)

select
    -- run
    b.run_id,
    -- processes whose programs share device numbers
    b.world,
    -- compiled program
    b.program_id,
    -- name of the program
    b.module,
    -- prefill or decode, of a compiled run; NULL in a measured one
    p.phase,
    -- instruction
    b.op,
    -- HLO opcode
    b.opcode,
    -- layer of the model; of a copy that the compiler adds, that of its users
    b.layer,
    -- part of the layer, likewise; NULL where users disagree
    b.component,
    -- op_name of the framework
    b.framework_op,
    -- times that one execution of the program runs it; NULL where decided at run time
    b.executions,
    -- cycles that the compiler expects; NULL where it states none
    cast(b.cycles as bigint) as cycles,
    -- FLOPs of its dots and convolutions; NULL of a kernel
    b.flops,
    -- least bytes from and to HBM
    b.hbm_bytes,
    -- flops / peak; NULL without a peak, and where devices of the run have different ones
    b.math_ps,
    -- HBM bytes / peak; NULL likewise
    b.hbm_ps,
    -- the larger of both: no chip of this kind is faster; NULL where one is not known
    b.bound_ps,
    -- math or hbm; NULL where both are 0 or one is not known
    case when b.bound_ps > 0 then case when b.math_ps = b.bound_ps then 'math' else 'hbm' end end
        as bound_by
from bounds as b
left join programs as p
    on p.run_id = b.run_id and p.world = b.world and p.program_id = b.program_id
