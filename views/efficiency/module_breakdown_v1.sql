-- one row per run, phase and program
-- Launches of each compiled program (module), and the self time of its ops by category, summed over
-- devices. A launch that the profile cut has ops and no launch of its own. Sums of FLOPs and bytes
-- with an unknown part are NULL.
with launched as (
    select
        run_id, phase, program_id,
        min(module) as module,
        count(*) as launches,
        count(distinct device_id) as devices,
        sum(duration_ps) as launch_ps
    from launches
    group by run_id, phase, program_id
),

ran as (
    select
        run_id, phase, program_id,
        min(module) as module,
        count(distinct device_id) as devices,
        sum(executions) as executions,
        sum(case when category = 'compute' then self_ps else 0 end) as compute_ps,
        sum(case when category = 'collective' then self_ps else 0 end) as collective_ps,
        sum(case when category in ('copy', 'host_transfer') then self_ps else 0 end) as copy_ps,
        sum(case when category = 'wait' then self_ps else 0 end) as wait_ps,
        sum(case when category = 'control' then self_ps else 0 end) as control_ps,
        case when count(flops) = count(*) then sum(flops) end as flops,
        case when count(model_flops) = count(*) then sum(model_flops) end as model_flops,
        case when count(accessed_bytes) = count(*) then sum(accessed_bytes) end as accessed_bytes,
        case when count(hbm_bytes) = count(*) then sum(hbm_bytes) end as hbm_bytes
    from _op_total_v1
    group by run_id, phase, program_id
),

keys as (
    select run_id, phase, program_id from launched
    union
    select run_id, phase, program_id from ran
)

select
    -- run
    k.run_id,
    -- prefill, decode, mixed, warmup, compile or step; NULL outside every marker
    k.phase,
    -- compiled program; NULL for ops outside every launch
    k.program_id,
    -- name of the program
    coalesce(l.module, r.module) as module,
    -- devices that ran the program
    cast(greatest(coalesce(l.devices, 0), coalesce(r.devices, 0)) as bigint) as devices,
    -- launches, over devices
    cast(coalesce(l.launches, 0) as bigint) as launches,
    -- events of ops, over devices
    cast(coalesce(r.executions, 0) as bigint) as executions,
    -- sum of the launches' durations; NULL without one
    cast(l.launch_ps as bigint) as launch_ps,
    -- self time of compute ops
    cast(coalesce(r.compute_ps, 0) as bigint) as compute_ps,
    -- self time of collectives, starts and dones
    cast(coalesce(r.collective_ps, 0) as bigint) as collective_ps,
    -- self time of copies and host transfers, starts and dones
    cast(coalesce(r.copy_ps, 0) as bigint) as copy_ps,
    -- time in waits
    cast(coalesce(r.wait_ps, 0) as bigint) as wait_ps,
    -- self time of control ops, such as loops
    cast(coalesce(r.control_ps, 0) as bigint) as control_ps,
    -- floating point operations of compute ops; NULL where unknown
    cast(r.flops as double) as flops,
    -- of these, the ones that the model asked for
    cast(r.model_flops as double) as model_flops,
    -- bytes read and written, as the compiler estimates
    cast(r.accessed_bytes as double) as accessed_bytes,
    -- of these, the ones in HBM
    cast(r.hbm_bytes as double) as hbm_bytes
from keys as k
left join launched as l
    on l.run_id = k.run_id and l.phase is not distinct from k.phase
    and l.program_id is not distinct from k.program_id
left join ran as r
    on r.run_id = k.run_id and r.phase is not distinct from k.phase
    and r.program_id is not distinct from k.program_id
