-- one row per run, marked request and group of clocks that marks the first step of the request
-- Clocks of different groups cannot be compared, so that each group's times of a request count from the
-- start of its own first marker. To compare them, these starts count as one time, that of the
-- group whose name is the last (clock_group of _step_clock_v1).
with marked as (
    select
        run_id, request, step, clock_group, marker_start_ps,
        min(step) over (partition by run_id, request) as first_step
    from _step_clock_v1
    where marker_start_ps is not null
),

leads as (
    select
        *, max(clock_group) over (partition by run_id, request) as lead_group
    from marked
    where step = first_step
)

select
    -- run
    run_id,
    -- request
    request,
    -- group of clocks
    clock_group,
    -- the group whose times stay
    lead_group,
    -- how much later the times of this one become
    max(case when clock_group = lead_group then marker_start_ps end) over (
        partition by run_id, request
    ) - marker_start_ps as later_ps
from leads
