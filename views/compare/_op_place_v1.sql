-- one row per run, phase, part, scope, opcode, shape and kernel
-- What the periods of a phase's steps are made of. An op belongs to the place in the code that it
-- comes from: its scope or else its source line, opcode, shape and kernel, so that renumbered names
-- do not matter. Its time is its part of the step (ops.attributed_ps); idle and between (the time
-- before a window) are parts of their own, so that the parts of a phase add up to its periods.
-- Phases are those of steps; ops outside steps, control ops and SparseCores are left out.
with device_passes as (
    select
        run_id, device_id, request, step, phase, idle_ps,
        period_ps - window_ps as between_ps
    from device_time_v1
    where coalesce(core, 'none') <> 'sparsecore'
),

passes as (
    select
        run_id, request, step, phase,
        count(*) as devices,
        sum(idle_ps) as idle_ps,
        case when count(between_ps) = count(*) then sum(between_ps) end as between_ps
    from device_passes
    group by run_id, request, step, phase
),

phases as (
    select run_id, phase, count(*) as passes, sum(devices) as device_steps
    from passes
    group by run_id, phase
),

summed as (
    select
        run_id, device_id, request, step, program_id, op, kernel, opcode,
        min(category) as category,
        count(*) as executions,
        case when count(attributed_ps) = count(*) then sum(attributed_ps) end as attributed_ps
    from ops
    where coalesce(category, 'none') <> 'control'
        and coalesce(line, 'none') not in ('Steps', 'Async XLA Ops')
    group by run_id, device_id, request, step, program_id, op, kernel, opcode
),

placed as (
    select
        o.run_id, d.phase, o.request, o.step, o.program_id, o.op, o.kernel, o.opcode,
        min(o.category) as category,
        sum(o.executions) as executions,
        case when count(o.attributed_ps) = count(*) then sum(o.attributed_ps) end as attributed_ps
    from summed as o
    inner join device_passes as d
        on d.run_id = o.run_id and d.device_id = o.device_id
        and d.request is not distinct from o.request and d.step is not distinct from o.step
    group by o.run_id, d.phase, o.request, o.step, o.program_id, o.op, o.kernel, o.opcode
),

named as (
    select
        o.run_id, o.phase, o.request, o.step, o.op, o.opcode, o.category, o.executions,
        o.attributed_ps, i.scope, i.shape,
        coalesce(o.kernel, regexp_extract(o.op, '^(.+?)([._][0-9]+)*$', 1)) as kernel
    from placed as o
    left join _op_source_v1 as i
        on i.run_id = o.run_id and i.program_id = o.program_id and i.op = o.op
),

parts as (
    select
        o.run_id, o.phase, o.request, o.step, 'op' as part, o.scope, o.opcode, o.shape, o.kernel,
        min(o.op) as op,
        min(o.category) as category,
        sum(o.executions) as executions,
        case when count(o.attributed_ps) = count(*) then sum(o.attributed_ps) end as attributed_ps
    from named as o
    group by o.run_id, o.phase, o.request, o.step, o.scope, o.opcode, o.shape, o.kernel
    union all
    select
        run_id, phase, request, step, 'idle', null, null, null, null, null, null, devices, idle_ps
    from passes
    union all
    select
        run_id, phase, request, step, 'between', null, null, null, null, null, null, devices,
        between_ps
    from passes
),

-- The mean over a pass's devices is one observation of a step.
observed as (
    select p.*, cast(p.attributed_ps as double) / nullif(s.devices, 0) as pass_ps
    from parts as p
    inner join passes as s
        on s.run_id = p.run_id and s.phase is not distinct from p.phase
        and s.request is not distinct from p.request and s.step is not distinct from p.step
),

added as (
    select
        run_id, phase, part, scope, opcode, shape, kernel,
        min(op) as op,
        min(category) as category,
        sum(executions) as executions,
        case when count(attributed_ps) = count(*) then sum(attributed_ps) end as attributed_ps,
        sum(pass_ps) as passes_ps,
        sum(pass_ps * pass_ps) as squares
    from observed
    group by run_id, phase, part, scope, opcode, shape, kernel
)

select
    -- run
    a.run_id,
    -- phase of the steps
    a.phase,
    -- op, idle (nothing runs in the window) or between (before the window)
    a.part,
    -- scope, or else source line; NULL where neither is known
    a.scope,
    -- HLO opcode; NULL without HLO
    a.opcode,
    -- shape of the result
    a.shape,
    -- name of the op without its trailing numbers; on a GPU the kernel
    a.kernel,
    -- one of its ops, by name
    a.op,
    -- compute, collective, copy, host_transfer or wait
    a.category,
    -- executions in the steps of the phase, over devices; of idle and between the steps
    cast(a.executions as bigint) as executions,
    -- time of the steps that belongs to it, over devices
    cast(a.attributed_ps as bigint) as attributed_ps,
    -- variance over the passes of the phase, each the mean over its devices, in ps^2; NULL of one
    case
        when p.passes > 1 and a.attributed_ps is not null then greatest(
            (a.squares - a.passes_ps * a.passes_ps / nullif(p.passes, 0)) / nullif(p.passes - 1, 0),
            0e0
        )
    end as variance,
    -- passes of the phase
    cast(p.passes as bigint) as passes,
    -- its passes, counted on each device
    cast(p.device_steps as bigint) as device_steps
from added as a
inner join phases as p on p.run_id = a.run_id and p.phase is not distinct from a.phase
