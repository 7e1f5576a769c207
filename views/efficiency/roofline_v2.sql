-- one row per run, program and op
-- Least time that an instruction's executions should take, and the time that they took, summed over
-- devices and executions; warm-up and compile phases are left out. An async pair is one row, under
-- its start; it is observed from the start of its start to the end of its done, and pairs with a
-- half missing from the trace, or whose halves no HLO ties, are left out. Other ops are observed by
-- their duration. T_math = flops / peak, T_hbm = HBM bytes / peak; T_ici is the least time of the
-- group's transfer: the wire bytes of all members over the ICI links that leave their chips, as
-- ici_ps of collective_bandwidth. predicted is the largest, NULL where one of them is not known.
-- Flops are the compiler's count; where a trace has none (a Chrome export), those that the model
-- asked for. Those of custom calls whose cost is not known are NULL; collectives and copies have
-- none. HBM bytes are the profiler's breakdown by memory; without one they are all bytes accessed,
-- in whatever memory (of a pair those of the half with more), and hbm_source says so: then T_hbm is
-- an upper bound. Where T_math or T_ici reaches that bound, it is the largest; elsewhere bound_by is
-- NULL, predicted is the larger of T_math and T_ici, and is_lower_bound flags it. T_ici is NULL
-- within one chip and where the places of the chips are not known, and the link to the host's memory
-- has no T. Control ops and waits have no row; virtual devices no prediction.
with totals as (
    select
        run_id, device_id, program_id, op,
        min(module) as module,
        min(opcode) as opcode,
        min(category) as category,
        min(hlo_category) as hlo_category,
        bool_or(is_kernel) as is_kernel,
        sum(executions) as executions,
        sum(duration_ps) as duration_ps,
        case
            when count(coalesce(flops, model_flops)) = count(*) then sum(coalesce(flops, model_flops))
        end as flops,
        case when count(accessed_bytes) = count(*) then sum(accessed_bytes) end as accessed_bytes,
        case when count(hbm_bytes) = count(*) then sum(hbm_bytes) end as hbm_bytes
    from _op_total_v1
    where category not in ('control', 'wait')
        and coalesce(phase, 'none') not in ('warmup', 'compile')
    group by run_id, device_id, program_id, op
),

halved as (
    select
        *,
        not is_kernel and (
            coalesce(opcode, 'none') like '%-start' or coalesce(opcode, 'none') like '%-update'
            or coalesce(opcode, 'none') like '%-done'
        ) as is_half
    from totals
),

-- Time of one execution of a half: profiling may have missed executions of either.
tied as (
    select
        t.run_id, t.device_id, t.program_id, t.op, t.module, t.opcode, t.category, t.hlo_category,
        t.duration_ps, t.is_half,
        case when t.is_half then coalesce(h.start_op, t.op) else t.op end as row_op,
        case when not t.is_half then t.executions end as whole_executions,
        case when t.is_half then t.flops / nullif(t.executions, 0) else t.flops end as flops,
        case
            when t.is_half then t.accessed_bytes / nullif(t.executions, 0) else t.accessed_bytes
        end as accessed_bytes,
        case when t.is_half then t.hbm_bytes / nullif(t.executions, 0) else t.hbm_bytes end
            as hbm_bytes
    from halved as t
    left join _op_half_v1 as h
        on h.run_id = t.run_id and h.program_id = t.program_id and h.op = t.op
),

rows_of_device as (
    select
        run_id, device_id, program_id, row_op,
        min(module) as module,
        min(case when op = row_op then opcode end) as opcode,
        min(category) as category,
        min(case when op = row_op then hlo_category end) as hlo_category,
        max(case when is_half then 1 else 0 end) as is_pair,
        sum(whole_executions) as executions,
        sum(case when not is_half then duration_ps end) as duration_ps,
        case when count(flops) = count(*) then sum(flops) end as flops,
        case when count(accessed_bytes) = count(*) then max(accessed_bytes) end as accessed_bytes,
        case when count(hbm_bytes) = count(*) then sum(hbm_bytes) end as hbm_bytes
    from tied
    group by run_id, device_id, program_id, row_op
),

sent as (
    select
        run_id, device_id, world, program_id, op, group_index,
        min(kind) as kind,
        min(axis) as axis,
        max(group_size) as group_size,
        count(*) as executions,
        sum(duration_ps) as duration_ps,
        -- a permute's receivers have none: the instruction's is that of its senders
        max(max(payload_bytes)) over (partition by run_id, world, program_id, op) as payload_bytes,
        case when count(wire_bytes) = count(*) then sum(wire_bytes) end as wire_bytes
    from _collective_wire_v1
    where coalesce(phase, 'none') not in ('warmup', 'compile')
    group by run_id, device_id, world, program_id, op, group_index
),

-- Bytes that all members of a device's group send in its executions.
shared as (
    select
        s.run_id, s.device_id, s.program_id, s.op, s.axis, s.executions, s.duration_ps,
        s.wire_bytes, c.ici_link_count * c.peak_ici_bytes_per_s as links_bytes_per_s,
        case
            when s.group_size = 1 or (s.group_index is null and s.wire_bytes = 0) then 0
            when s.kind in ('collective-permute', 'send-recv')
                then c.pairs * nullif(s.payload_bytes, 0) * s.executions
            when s.kind = 'collective-broadcast'
                then (s.group_size - 1) * s.payload_bytes * s.executions
            else s.group_size * s.wire_bytes
        end as group_bytes
    from sent as s
    left join _group_link_v2 as c
        on c.run_id = s.run_id and c.world = s.world and c.program_id = s.program_id
        and c.op = s.op and c.group_index = s.group_index
),

transfers as (
    select
        run_id, device_id, program_id, op,
        sum(executions) as executions,
        sum(duration_ps) as duration_ps,
        min(axis) as axis,
        case when count(wire_bytes) = count(*) then sum(wire_bytes) end as wire_bytes,
        case
            when max(group_bytes) = 0 and count(group_bytes) = count(*) then 0
            when count(group_bytes / nullif(links_bytes_per_s, 0)) = count(*)
                then sum(group_bytes / nullif(links_bytes_per_s, 0)) * 1e12
        end as ici_ps
    from shared
    group by run_id, device_id, program_id, op
),

observed as (
    select
        r.run_id, r.device_id, r.program_id, r.row_op, r.module, r.opcode, r.category,
        r.hlo_category, t.axis,
        coalesce(t.executions, f.executions, r.executions) as executions,
        coalesce(t.duration_ps, f.duration_ps, r.duration_ps) as observed_ps,
        r.flops * case when r.is_pair = 1 then coalesce(t.executions, f.executions) else 1 end
            as flops,
        coalesce(r.hbm_bytes, r.accessed_bytes)
        * case when r.is_pair = 1 then coalesce(t.executions, f.executions) else 1 end as hbm_bytes,
        case
            when r.hbm_bytes is not null then 'breakdown'
            when r.accessed_bytes is not null then 'bytes_accessed'
        end as hbm_source,
        case when r.category = 'collective' then t.wire_bytes else 0 end as wire_bytes,
        case when r.category = 'collective' then t.ici_ps else 0 end as ici_ps
    from rows_of_device as r
    left join transfers as t
        on t.run_id = r.run_id and t.device_id = r.device_id and t.program_id = r.program_id
        and t.op = r.row_op
    left join _async_flight_v1 as f
        on f.run_id = r.run_id and f.device_id = r.device_id and f.program_id = r.program_id
        and f.start_op = r.row_op
),

summed as (
    select
        o.run_id, o.program_id, o.row_op,
        min(o.module) as module,
        min(o.opcode) as opcode,
        min(o.category) as category,
        min(o.hlo_category) as hlo_category,
        min(o.axis) as axis,
        count(*) as devices,
        sum(o.executions) as executions,
        sum(o.observed_ps) as observed_ps,
        case when count(o.flops) = count(*) then sum(o.flops) end as flops,
        case when count(o.hbm_bytes) = count(*) then sum(o.hbm_bytes) end as hbm_bytes,
        -- the lesser of both words, NULL where a device has neither
        case when count(o.hbm_source) = count(*) then max(o.hbm_source) end as hbm_source,
        case when count(o.wire_bytes) = count(*) then sum(o.wire_bytes) end as wire_bytes,
        sum(o.flops / nullif(p.peak_flops_per_s, 0)) * 1e12 as math_ps,
        sum(o.hbm_bytes / nullif(p.peak_hbm_bytes_per_s, 0)) * 1e12 as hbm_ps,
        sum(o.ici_ps) as ici_ps,
        count(p.peak_flops_per_s) = count(*) as has_flops_peak,
        count(p.peak_hbm_bytes_per_s) = count(*) as has_hbm_peak,
        count(o.ici_ps) = count(*) as has_ici
    from observed as o
    left join hardware_peaks_v1 as p on p.run_id = o.run_id and p.device_id = o.device_id
    where o.executions > 0
    group by o.run_id, o.program_id, o.row_op
),

limits as (
    select
        run_id, program_id, row_op, module, opcode, category, hlo_category, axis, devices,
        executions, observed_ps, flops, hbm_bytes, hbm_source, wire_bytes,
        case when has_flops_peak and flops is not null then math_ps end as math_ps,
        case when has_hbm_peak and hbm_bytes is not null then hbm_ps end as hbm_ps,
        case when has_ici then ici_ps end as ici_ps
    from summed
),

-- The most that is sure: without a breakdown by memory T_hbm is an upper bound.
judged as (
    select
        *,
        case
            when math_ps is not null and hbm_ps is not null and ici_ps is not null
                then hbm_source = 'bytes_accessed' and hbm_ps > greatest(math_ps, ici_ps)
        end as is_lower_bound
    from limits
),

predictions as (
    select
        *,
        case
            when is_lower_bound then nullif(greatest(math_ps, ici_ps), 0)
            when not is_lower_bound then greatest(math_ps, hbm_ps, ici_ps)
        end as predicted_ps
    from judged
)

select
    -- run
    run_id,
    -- compiled program
    program_id,
    -- name of the program
    module,
    -- name of the HLO instruction; of an async pair, its start's
    row_op as op,
    -- HLO opcode; NULL without HLO
    opcode,
    -- compute, collective, copy or host_transfer
    category,
    -- category as traced
    hlo_category,
    -- axis of a collective: mesh axes joined by +, or none, mixed or unclassified; else NULL
    axis,
    -- devices that executed it
    cast(devices as bigint) as devices,
    -- executions, over devices
    cast(executions as bigint) as executions,
    -- floating point operations, else those that the model asked for; NULL where both are unknown
    cast(flops as double) as flops,
    -- bytes to and from HBM; NULL where unknown
    cast(hbm_bytes as double) as hbm_bytes,
    -- breakdown (by memory, as profiled), or bytes_accessed (in whatever memory, an upper bound)
    hbm_source,
    -- bytes sent to other devices; NULL where unknown
    cast(wire_bytes as double) as wire_bytes,
    -- flops / peak
    cast(math_ps as double) as math_ps,
    -- HBM bytes / peak; an upper bound where hbm_source is bytes_accessed
    cast(hbm_ps as double) as hbm_ps,
    -- wire bytes of all members of the group / peak of the links that leave their chips
    cast(ici_ps as double) as ici_ps,
    -- the largest of the three; of T_math and T_ici where T_hbm is an upper bound above them, and NULL
    -- where these are 0
    cast(predicted_ps as double) as predicted_ps,
    -- predicted and efficiency are lower bounds: T_hbm is an upper bound above T_math and T_ici
    case when predicted_ps is not null then is_lower_bound end as is_lower_bound,
    -- observed time
    cast(observed_ps as bigint) as observed_ps,
    -- the largest of the three: math, hbm or ici; NULL where all are 0, and where T_hbm is an upper
    -- bound above the others
    case
        when predicted_ps = 0 or is_lower_bound then null
        when math_ps = predicted_ps then 'math'
        when hbm_ps = predicted_ps then 'hbm'
        when ici_ps = predicted_ps then 'ici'
    end as bound_by,
    -- predicted / observed
    cast(predicted_ps as double) / nullif(cast(observed_ps as double), 0) as efficiency_ratio
from predictions
