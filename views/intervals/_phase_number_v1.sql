-- one row per run and phase of a collective
-- A number for each phase, and for none: a part of keys, by the scheme of _run_key_v1.
with phases_of_runs as (
    select run_id, phase
    from collectives
    group by run_id, phase
)

select
    -- run
    run_id,
    -- phase; NULL outside every marker
    phase,
    -- number of the phase within the run, from 1
    cast(row_number() over (partition by run_id order by phase) as bigint) as phase_number
from phases_of_runs
