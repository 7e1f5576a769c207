-- one row per pair of runs, phase, part, scope, opcode, shape and kernel
-- Which ops make the difference between the steps of two runs: run_id is the base, other_run_id the
-- run to compare with, for phases that both have. Ops are matched by where they come from (scope, or
-- else source line; opcode, shape, kernel), so that renumbered names do not matter. A step of the
-- phase takes mean period = sum of step_ps over all rows, since ingest splits a step's time among its
-- ops (ops.attributed_ps), and idle and between are rows of their own. With T the time and n the
-- executions a step: count_ps = (n' - n) T / n, rate_ps = T' - n' T / n, new_ps = T', gone_ps = -T;
-- each row adds up to total_ps, and the rows of a phase to the difference of the mean periods. Means
-- are over the phase's steps, each counted on each of its devices; SparseCores are left out.
with pairs as (
    select
        b.run_id, o.run_id as other_run_id, b.phase,
        b.passes, o.passes as other_passes,
        b.device_steps, o.device_steps as other_device_steps
    from _op_place_v1 as b
    inner join _op_place_v1 as o on o.phase is not distinct from b.phase and o.run_id <> b.run_id
    where b.part = 'idle' and o.part = 'idle'
),

sides as (
    select
        p.run_id, p.other_run_id, p.phase, t.part, t.scope, t.opcode, t.shape, t.kernel,
        t.category,
        t.op, null as other_op,
        t.executions, 0 as other_executions,
        t.attributed_ps, 0 as other_attributed_ps,
        t.variance, case when p.other_passes > 1 then 0e0 end as other_variance
    from pairs as p
    inner join _op_place_v1 as t
        on t.run_id = p.run_id and t.phase is not distinct from p.phase
    union all
    select
        p.run_id, p.other_run_id, p.phase, t.part, t.scope, t.opcode, t.shape, t.kernel,
        t.category,
        null, t.op,
        0, t.executions,
        0, t.attributed_ps,
        case when p.passes > 1 then 0e0 end, t.variance
    from pairs as p
    inner join _op_place_v1 as t
        on t.run_id = p.other_run_id and t.phase is not distinct from p.phase
),

matched as (
    select
        run_id, other_run_id, phase, part, scope, opcode, shape, kernel,
        min(category) as category,
        min(op) as op,
        min(other_op) as other_op,
        sum(executions) as executions,
        sum(other_executions) as other_executions,
        case when count(attributed_ps) = count(*) then sum(attributed_ps) end as attributed_ps,
        case when count(other_attributed_ps) = count(*) then sum(other_attributed_ps) end
            as other_attributed_ps,
        case when count(variance) = count(*) then sum(variance) end as variance,
        case when count(other_variance) = count(*) then sum(other_variance) end as other_variance
    from sides
    group by run_id, other_run_id, phase, part, scope, opcode, shape, kernel
),

means as (
    select
        m.*,
        p.passes, p.other_passes,
        cast(m.executions as double) / nullif(p.device_steps, 0) as executions_per_step,
        cast(m.other_executions as double) / nullif(p.other_device_steps, 0)
            as other_executions_per_step,
        cast(m.attributed_ps as double) / nullif(p.device_steps, 0) as step_ps,
        cast(m.other_attributed_ps as double) / nullif(p.other_device_steps, 0) as other_step_ps,
        1.96e0 * sqrt(
            m.variance / nullif(p.passes, 0) + m.other_variance / nullif(p.other_passes, 0)
        ) as margin_ps
    from matched as m
    inner join pairs as p
        on p.run_id = m.run_id and p.other_run_id = m.other_run_id
        and p.phase is not distinct from m.phase
),

judged as (
    select
        *,
        other_step_ps - step_ps as total_ps,
        -- the base's time at the other run's count
        other_executions_per_step * step_ps / nullif(executions_per_step, 0) as expected_ps,
        coalesce(abs(other_step_ps - step_ps) > margin_ps, false) as is_different
    from means
),

numbered as (
    select
        *,
        row_number() over (
            partition by run_id, other_run_id, phase, is_different
            order by abs(total_ps) desc, part, scope, opcode, shape, kernel
        ) as place
    from judged
)

select
    -- base run
    run_id,
    -- the run to compare with
    other_run_id,
    -- phase of the steps
    phase,
    -- op, idle (nothing runs in the window) or between (before the window)
    part,
    -- op_name of the framework, else file:line of its code; NULL where neither is known
    scope,
    -- HLO opcode; NULL without HLO
    opcode,
    -- shape of the result, without its layout where it is not a tuple
    shape,
    -- name of the op without its trailing numbers; on a GPU the kernel that ran
    kernel,
    -- compute, collective, copy, host_transfer or wait
    category,
    -- one of its ops in the base, by name; NULL for new
    op,
    -- one of its ops in the other run; NULL for gone
    other_op,
    -- steps of the base; one on several devices counts once
    cast(passes as bigint) as steps,
    -- steps of the other run
    cast(other_passes as bigint) as other_steps,
    -- executions a step and device in the base
    executions_per_step,
    -- executions a step and device in the other run
    other_executions_per_step,
    -- mean time of an execution in the base
    step_ps / nullif(executions_per_step, 0) as mean_ps,
    -- mean time of an execution in the other run
    other_step_ps / nullif(other_executions_per_step, 0) as other_mean_ps,
    -- mean time of a step that belongs to it in the base; NULL where a period or a share is unknown
    step_ps,
    -- mean time of a step that belongs to it in the other run
    other_step_ps,
    -- change because it executes more or less often
    case
        when executions > 0 and other_executions > 0 then expected_ps - step_ps
        when total_ps is not null then 0e0
    end as count_ps,
    -- change because an execution takes longer or shorter
    case
        when executions > 0 then other_step_ps - expected_ps
        when total_ps is not null then 0e0
    end as rate_ps,
    -- time of ops that the base does not execute
    case when executions = 0 then other_step_ps when total_ps is not null then 0e0 end as new_ps,
    -- less the time of ops that the other run does not execute
    case when other_executions = 0 then -step_ps when total_ps is not null then 0e0 end as gone_ps,
    -- the other run's step_ps less the base's
    total_ps,
    -- half of the interval of total_ps that holds 95 % of draws, from the variances over steps; NULL
    -- with one step
    margin_ps,
    -- place by the size of total_ps, from 1; NULL where total_ps is within the margin, or a margin
    -- is not known
    cast(case when is_different then place end as bigint) as rank
from numbered
