-- one row per stretch of time in which a host compiles
-- Events that XLA, torch_xla and JAX name as compiles, on any thread, and marked compile phases;
-- compiles of a host that overlap or touch are one stretch. It belongs to the phase of the last
-- marker of a step that opened on its host, if it starts before that one closes. It is a recompile
-- if it starts once the first marker of a measured step (prefill, decode or mixed) is open anywhere
-- in the run, except in warm-up phases.
with markers as (
    select
        run_id, host, phase, start_ps, start_ps + duration_ps as end_ps
    from phases
    where source = 'marker' and phase in ('prefill', 'decode', 'mixed', 'warmup')
),

compiling as (
    select run_id, host, start_ps, start_ps + duration_ps as end_ps
    from host_events
    where name = 'backend_compile' or name like '% backend_compile' or name = 'XlaCompile'
        or name like '%::Compile' or name like '%::Compile (%' or name like '%::CompileAndLoad%'
    union all
    select run_id, host, start_ps, start_ps + duration_ps
    from phases
    where phase = 'compile'
),

reached as (
    select
        *,
        max(end_ps) over (
            partition by run_id, host order by start_ps, end_ps
            rows between unbounded preceding and 1 preceding
        ) as reached_ps
    from compiling
),

-- A stretch begins where nothing before it reaches.
begun as (
    select
        *,
        sum(case when reached_ps is null or start_ps > reached_ps then 1 else 0 end) over (
            partition by run_id, host order by start_ps, end_ps
            rows between unbounded preceding and current row
        ) as stretch
    from reached
),

stretches as (
    select run_id, host, min(start_ps) as start_ps, max(end_ps) as end_ps
    from begun
    group by run_id, host, stretch
),

-- Markers open before what starts at the same time; of several, the longest first.
opened as (
    select run_id, host, phase, start_ps, end_ps, 1 as is_marker
    from markers
    union all
    select run_id, host, null, start_ps, end_ps, 0
    from stretches
),

numbered as (
    select
        *,
        sum(is_marker) over (
            partition by run_id, host order by start_ps, is_marker desc, end_ps desc, phase
            rows between unbounded preceding and current row
        ) as marker
    from opened
),

within as (
    select
        run_id, host, is_marker, start_ps, end_ps,
        max(phase) over (partition by run_id, host, marker) as marker_phase,
        max(case when is_marker = 1 then end_ps end) over (
            partition by run_id, host, marker
        ) as marker_end_ps,
        min(case when is_marker = 1 and phase <> 'warmup' then start_ps end) over (
            partition by run_id
        ) as measured_from_ps
    from numbered
),

labelled as (
    select
        *,
        case when start_ps < marker_end_ps then marker_phase end as phase
    from within
    where is_marker = 0
)

select
    -- run
    run_id,
    -- host; NULL where it is not known
    host,
    -- phase of the marker that it starts in; NULL outside every marker of a step
    phase,
    -- start
    start_ps,
    -- end
    end_ps,
    -- it starts after warm-up; NULL in a run without markers of measured steps
    start_ps >= measured_from_ps and coalesce(phase, '') <> 'warmup' as is_recompile
from labelled
