-- one row per run with steps, and the time in which kinds of events overlap, over all processes at once
-- Transfers and compute count by their names, within the steps that CCL-Bench takes for inner ones.
with stepped_runs as (
    select run_id
    from _ccl_step_v1
    group by run_id
),

-- Where each kind of interval begins and ends, over all processes at once
intervals as (
    select
        e.run_id, e.start_ps, e.start_ps + e.duration_ps as end_ps,
        case when e.is_named_transfer then 1 else 0 end as transfers,
        case when e.is_named_compute and not e.is_named_transfer then 1 else 0 end as computes,
        case
            when e.device_id is not null and e.copy_half = ''
                and regexp_extract(e.name, 'copy-(start|done)[.]|^jit_|dependency-wait', 0) = ''
                then 1
            else 0
        end as busy,
        0 as windows,
        0 as copying
    from _ccl_chosen_event_v1 as e
    inner join stepped_runs as s on s.run_id = e.run_id
    where e.duration_ps > 0
    union all
    select run_id, start_ps, start_ps + duration_ps as end_ps, 0, 0, 0, 1, 0
    from _ccl_step_v1
    where (steps <= 2 or (place > 1 and place < steps)) and duration_ps > 0
    union all
    select c.run_id, c.start_ps, c.end_ps, 0, 0, 0, 0, 1
    from _ccl_copy_v1 as c
    inner join stepped_runs as s on s.run_id = c.run_id
    where c.pairing = 'any'
),

edges as (
    select run_id, start_ps as at_ps, transfers, computes, busy, windows, copying
    from intervals
    where transfers + computes + busy + windows + copying > 0
    union all
    select run_id, end_ps as at_ps, -transfers, -computes, -busy, -windows, -copying
    from intervals
    where transfers + computes + busy + windows + copying > 0
),

-- One row per time: rows at one time have no order
turns as (
    select
        run_id, at_ps,
        sum(transfers) as transfers,
        sum(computes) as computes,
        sum(busy) as busy,
        sum(windows) as windows,
        sum(copying) as copying
    from edges
    group by run_id, at_ps
),

levels as (
    select
        run_id,
        lead(at_ps) over (partition by run_id order by at_ps) - at_ps as length_ps,
        sum(transfers) over (
            partition by run_id order by at_ps rows between unbounded preceding and current row
        ) as transfers,
        sum(computes) over (
            partition by run_id order by at_ps rows between unbounded preceding and current row
        ) as computes,
        sum(busy) over (
            partition by run_id order by at_ps rows between unbounded preceding and current row
        ) as busy,
        sum(windows) over (
            partition by run_id order by at_ps rows between unbounded preceding and current row
        ) as windows,
        sum(copying) over (
            partition by run_id order by at_ps rows between unbounded preceding and current row
        ) as copying
    from turns
)

select
    -- run
    run_id,
    -- time in steps with a transfer
    sum(case when transfers > 0 then windows * length_ps end) as transfer_ps,
    -- the part of it with compute
    sum(case when transfers > 0 and computes > 0 then windows * length_ps else 0 end)
        as overlap_ps,
    -- time with a copy and no other event of a device
    sum(case when copying > 0 and busy = 0 then length_ps else 0 end) as bare_copy_ps
from levels
group by run_id
