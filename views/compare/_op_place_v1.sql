-- one row per run, phase, part, scope, opcode, shape and kernel
-- What the periods of a phase's steps are made of. An op belongs to the place in the code that it
-- comes from: its scope or else its source line, opcode, shape and kernel, so that renumbered names
-- do not matter. Its time is its part of the step (ops.attributed_ps); idle and between (the time
-- before a window) are parts of their own, so that the parts of a phase add up to its periods.
-- Phases are those of steps; ops outside steps, control ops, SparseCores, and devices without steps beside
-- ones with steps, are left out.
with timed as (
    select *, max(step) over (partition by run_id) as last_step
    from device_time_v1
    where coalesce(core, 'none') <> 'sparsecore'
),

device_passes as (
    select
        run_id, device_id, request, step, phase, idle_ps,
        period_ps - window_ps as between_ps
    from timed
    where step is not null or last_step is null
),

passes as (
    select
        run_id, request, step, phase,
        row_number() over (partition by 1 order by run_id, phase, request, step) as pass,
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

numbered as (
    select d.run_id, d.device_id, d.request, d.step, p.pass
    from device_passes as d
    inner join passes as p
        on p.run_id = d.run_id and p.phase is not distinct from d.phase
        and p.request is not distinct from d.request and p.step is not distinct from d.step
),

-- Ops are millions: they are read and grouped once, and rows are left out afterwards.
placed as (
    select
        n.pass, o.program_id, o.op, o.kernel, o.opcode, o.category, o.line,
        count(*) as executions,
        case when count(o.attributed_ps) = count(*) then sum(o.attributed_ps) end as attributed_ps
    from ops as o
    inner join numbered as n
        on n.run_id = o.run_id and n.device_id = o.device_id
        and n.request is not distinct from o.request and n.step is not distinct from o.step
    group by n.pass, o.program_id, o.op, o.kernel, o.opcode, o.category, o.line
),

named as (
    select
        o.pass, o.op, o.opcode, o.category, o.executions, o.attributed_ps, i.scope, i.shape,
        coalesce(o.kernel, regexp_extract(o.op, '^(.+?)([._][0-9]+)*$', 1)) as kernel
    from placed as o
    inner join passes as p on p.pass = o.pass
    left join _op_source_v1 as i
        on i.run_id = p.run_id and i.program_id = o.program_id and i.op = o.op
    where coalesce(o.category, 'none') <> 'control'
        and coalesce(o.line, 'none') not in ('Steps', 'Async XLA Ops')
),

parts as (
    select
        pass, 'op' as part, scope, opcode, shape, kernel,
        min(op) as op,
        min(category) as category,
        sum(executions) as executions,
        case when count(attributed_ps) = count(*) then sum(attributed_ps) end as attributed_ps
    from named
    group by pass, scope, opcode, shape, kernel
    union all
    select pass, 'idle', null, null, null, null, null, null, devices, idle_ps
    from passes
    union all
    select pass, 'between', null, null, null, null, null, null, devices, between_ps
    from passes
),

-- The mean over a pass's devices is one observation of a step.
observed as (
    select
        s.run_id, s.phase, p.*,
        cast(p.attributed_ps as double) / nullif(s.devices, 0) as pass_ps
    from parts as p
    inner join passes as s on s.pass = p.pass
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
