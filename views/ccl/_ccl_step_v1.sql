-- one row per step of a run by which CCL-Bench divides its time
-- Host steps of one vLLM version; in a run without any, the step markers that are longer than a tenth of the longest.
with steps as (
    select
        run_id, start_ps, duration_ps,
        row_number() over (partition by run_id order by start_ps, duration_ps desc) as place,
        count(*) over (partition by run_id) as steps
    from _ccl_chosen_event_v1
    where name = '$core.py:331 step'
),

stepped as (
    select run_id
    from steps
    group by run_id
),

markers as (
    select
        run_id, start_ps, duration_ps,
        max(duration_ps) over (partition by run_id) as longest_ps
    from _ccl_chosen_event_v1
    where name = 'StepMarker'
),

windows as (
    select run_id, 'vllm' as marked_by, start_ps, duration_ps, place, steps
    from steps
    union all
    select
        m.run_id, 'marker' as marked_by, m.start_ps, m.duration_ps,
        row_number() over (partition by m.run_id order by m.start_ps, m.duration_ps desc) as place,
        count(*) over (partition by m.run_id) as steps
    from markers as m
    left join stepped as t on t.run_id = m.run_id
    where t.run_id is null and m.duration_ps * 10 > m.longest_ps
)

select
    -- run
    run_id,
    -- vllm, or marker
    marked_by,
    -- start
    start_ps,
    -- duration
    duration_ps,
    -- number among the run's steps, from 1
    place,
    -- steps of the run
    steps
from windows
