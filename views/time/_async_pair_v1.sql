-- one row per run, device and async pair, collectives left out
-- A copy or another async op in flight: from the start of its start to the end of its done. Pairs
-- with a half missing from the trace are left out, and so are warm-up and compile phases.
with halves as (
    select
        o.run_id, o.device_id, o.launch, o.program_id, h.start_op, h.half, o.start_ps,
        o.start_ps + o.duration_ps as end_ps
    from ops as o
    inner join _op_half_v1 as h
        on h.run_id = o.run_id and h.program_id = o.program_id and h.op = o.op
    where o.is_async and o.kernel is null and o.category not in ('collective', 'control', 'wait')
        and coalesce(o.line, 'none') <> 'Async XLA Ops'
        and coalesce(o.phase, 'none') not in ('warmup', 'compile')
        and h.half in ('start', 'done')
),

-- A start may have no length and be at the very time of its done.
followed as (
    select
        *,
        lag(half) over (
            partition by run_id, device_id, launch, program_id, start_op
            order by start_ps, half desc
        ) as half_before,
        lag(start_ps) over (
            partition by run_id, device_id, launch, program_id, start_op
            order by start_ps, half desc
        ) as start_before_ps
    from halves
)

select
    -- run
    run_id,
    -- device
    device_id,
    -- compiled program
    program_id,
    -- name of the pair's start
    start_op,
    -- start of its start
    start_before_ps as start_ps,
    -- end of its done
    end_ps
from followed
where half = 'done' and half_before = 'start'
