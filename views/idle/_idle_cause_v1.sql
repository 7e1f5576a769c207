-- one row per step's window on a device and gap in it
-- A gap is a time within the window in which nothing of the step runs on the device (device_time's
-- idle), of any length; SparseCores are left out. busy_stretches cuts a gap where a launch of the
-- step begins or ends on the device, so that the time with an open launch is known too. While a
-- device is busy its group is: from one row of a device to its next the total grows only in the
-- idle time between the two.
with pieces as (
    select
        *,
        idle_so_far_ps - lag(idle_so_far_ps) over (
            partition by window_key, level order by start_ps
        ) as nobody_ps
    from _idle_total_v1
),

ended as (
    select
        *,
        start_ps - idle_ps - gap_before_ps as gap_start_ps,
        start_ps + gap_after_ps as gap_end_ps
    from pieces
    where idle_ps > 0
),

-- Few gaps are cut.
gaps as (
    select
        window_key, gap_start_ps, gap_end_ps,
        case when in_launch = 1 then nobody_ps else 0 end as open_idle_ps,
        nobody_ps as group_idle_ps,
        0 as stage_idle_ps
    from ended
    where staged = 0 and gap_before_ps = 0 and gap_after_ps = 0
    union all
    select
        window_key, gap_start_ps, gap_end_ps,
        sum(case when level = 0 and in_launch = 1 then nobody_ps else 0 end),
        sum(case when level = 0 then nobody_ps else 0 end),
        sum(case when level = 1 then nobody_ps else 0 end)
    from ended
    where staged = 1 or gap_before_ps > 0 or gap_after_ps > 0
    group by window_key, gap_start_ps, gap_end_ps
)

select
    -- key of the window
    window_key,
    -- start of the gap
    gap_start_ps,
    -- end of the gap
    gap_end_ps,
    -- no device of the group busy, a launch of the step open on the device
    cast(open_idle_ps as bigint) as open_idle_ps,
    -- no device of the group busy
    cast(group_idle_ps as bigint) as group_idle_ps,
    -- no device of its own stage busy; 0 where there is only one stage
    cast(stage_idle_ps as bigint) as stage_idle_ps
from gaps
