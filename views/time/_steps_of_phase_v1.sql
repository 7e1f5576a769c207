-- one row per run and phase that has steps with launches
-- How many steps a phase has: those in which a device launched a program.
with launched as (
    select run_id, phase, request, step
    from launches
    where step is not null
    group by run_id, phase, request, step
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
