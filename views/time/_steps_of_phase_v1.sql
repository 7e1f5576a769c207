-- one row per run and phase that has steps with launches
-- How many steps a phase has: those in which a device launched a program. A compiled run has one of
-- each phase.
with launched as (
    select run_id, phase, request, step
    from launches
    where step is not null
    group by run_id, phase, request, step
),

compiled as (
    select run_id, phase
    from programs
    where source = 'compiled'
    group by run_id, phase
)

select
    -- run
    run_id,
    -- phase; NULL outside every marker
    phase,
    -- steps
    cast(count(*) as bigint) as step_count
from launched
group by run_id, phase
union all
select run_id, phase, 1
from compiled
