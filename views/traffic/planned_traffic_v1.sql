-- one row per run, phase, axis and kind of collective that is planned, compiled or measured
-- The traffic that the plan needs (expected_traffic), that the TPU's compiler made of it, and that ran:
-- the mean of a device in a pass of the phase. A measured run is beside the newest compiled run of its setup; a
-- compiled run has nothing measured. decided_by names who made it so: plan where nothing differs from
-- it; compiler where the compiled program moves other bytes than the plan, and the run moves the
-- program's; run where it moves other bytes than the program. NULL where too little is known: without
-- a compiled run, other bytes than planned may be the compiler's or the program's doing.
with partners as (
    select
        m.run_id,
        c.run_id as compiled_run_id,
        row_number() over (
            partition by m.run_id order by c.captured_at desc nulls last, c.run_id
        ) as place
    from runs as m
    inner join runs as c on c.setup = m.setup and c.source = 'compiled'
    where m.source is null or m.source not in ('compiled', 'predicted')
),

sides as (
    select
        run_id, run_id as from_run_id, is_compiled, phase, axis, kind, passes, expected_count,
        expected_payload_bytes, made_count, made_payload_bytes, expected_problem
    from _expected_traffic_v1
    union all
    select
        r.run_id, e.run_id, e.is_compiled, e.phase, e.axis, e.kind, e.passes, e.expected_count,
        e.expected_payload_bytes, e.made_count, e.made_payload_bytes, e.expected_problem
    from partners as r
    inner join _expected_traffic_v1 as e on e.run_id = r.compiled_run_id
    where r.place = 1
),

-- Where a side has passes of a phase, it sends nothing of an axis and kind without a row.
seen as (
    select
        run_id, phase,
        max(case when is_compiled then 1 else 0 end) as was_compiled,
        max(case when is_compiled then 0 else 1 end) as was_measured
    from sides
    where passes is not null
    group by run_id, phase
),

beside as (
    select
        run_id, phase, axis, kind,
        max(expected_count / nullif(passes, 0)) as planned_count,
        max(expected_payload_bytes / nullif(passes, 0)) as planned_payload_bytes,
        max(expected_problem) as expected_problem,
        max(case when is_compiled then 1 else 0 end) as in_compiled,
        max(case when is_compiled then made_count / nullif(passes, 0) end) as compiled_count,
        max(case when is_compiled then made_payload_bytes / nullif(passes, 0) end)
            as compiled_payload_bytes,
        max(case when is_compiled then 0 else 1 end) as in_measured,
        max(case when not is_compiled then made_count / nullif(passes, 0) end) as measured_count,
        max(case when not is_compiled then made_payload_bytes / nullif(passes, 0) end)
            as measured_payload_bytes
    from sides
    group by run_id, phase, axis, kind
),

filled as (
    select
        b.run_id, b.phase, b.axis, b.kind, b.planned_count, b.planned_payload_bytes,
        b.expected_problem,
        case when b.in_compiled = 0 and s.was_compiled = 1 then 0 else b.compiled_count end
            as compiled_count,
        case when b.in_compiled = 0 and s.was_compiled = 1 then 0 else b.compiled_payload_bytes end
            as compiled_payload_bytes,
        case when b.in_measured = 0 and s.was_measured = 1 then 0 else b.measured_count end
            as measured_count,
        case when b.in_measured = 0 and s.was_measured = 1 then 0 else b.measured_payload_bytes end
            as measured_payload_bytes
    from beside as b
    left join seen as s on s.run_id = b.run_id and s.phase = b.phase
)

select
    -- run
    run_id,
    -- prefill, decode, mixed, warmup, compile or step; NULL outside every marker
    phase,
    -- mesh axes joined by +, or none, mixed or unclassified
    axis,
    -- kind of the collective
    kind,
    -- collectives that the plan needs; NULL where expected_problem says why
    cast(planned_count as double) as planned_count,
    -- collectives of the compiled program; NULL without one
    cast(compiled_count as double) as compiled_count,
    -- collectives that ran; NULL of a compiled run
    cast(measured_count as double) as measured_count,
    -- S of what the plan needs
    cast(planned_payload_bytes as double) as planned_payload_bytes,
    -- S of what the compiled program makes
    cast(compiled_payload_bytes as double) as compiled_payload_bytes,
    -- S of what ran
    cast(measured_payload_bytes as double) as measured_payload_bytes,
    -- plan, compiler or run; NULL where it is not known
    case
        when measured_payload_bytes <> compiled_payload_bytes then 'run'
        when compiled_payload_bytes <> planned_payload_bytes then 'compiler'
        when coalesce(compiled_payload_bytes, measured_payload_bytes) = planned_payload_bytes
            then 'plan'
    end as decided_by,
    -- why nothing is planned for it; NULL where something is
    expected_problem
from filled
