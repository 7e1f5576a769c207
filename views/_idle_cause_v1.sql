-- one row per step's window on a device and gap in it
-- A gap is a time within the window in which nothing of the step runs on the device (device_time's
-- idle), of any length; SparseCores are left out. What others did meanwhile is told by differences
-- of running totals at its ends: the time with no device of the peer group busy, and with none of
-- the own stage, within the same step. busy_stretches cuts a gap where a launch of the step begins or
-- ends on the device, so that the time with an open launch is told too.
with windows as (
    select
        w.window_key, w.run_id, w.device_id, w.request, w.step, g.stages,
        min(w.window_key) over (
            partition by w.run_id, w.request, w.step, g.peer_group
        ) as group_key,
        min(w.window_key) over (
            partition by w.run_id, w.request, w.step, g.peer_group, g.stage
        ) as stage_key
    from _step_window_v1 as w
    inner join _device_group_v1 as g on g.run_id = w.run_id and g.device_id = w.device_id
),

marks as (
    select
        w.window_key, w.group_key, w.stage_key, w.stages,
        s.start_ps,
        s.start_ps + s.duration_ps as end_ps,
        s.idle_ps, s.gap_before_ps, s.gap_after_ps,
        case when s.in_launch then 1 else 0 end as in_launch
    from windows as w
    inner join busy_stretches as s
        on s.run_id = w.run_id and s.device_id = w.device_id
        and s.request is not distinct from w.request and s.step is not distinct from w.step
),

-- Where there is one stage, the group says it all. The last digit says which of the two it is.
levels as (
    select
        2 * window_key as row_key, 2 * group_key as key,
        case when stages > 1 then 1 else 0 end as staged,
        start_ps, end_ps, idle_ps, gap_before_ps, gap_after_ps, in_launch
    from marks
    union all
    select
        2 * window_key + 1, 2 * stage_key + 1, 1, start_ps, end_ps, idle_ps, gap_before_ps,
        gap_after_ps, in_launch
    from marks
    where stages > 1
),

reached as (
    select
        *,
        max(end_ps) over (
            partition by key order by start_ps rows between unbounded preceding and 1 preceding
        ) as reached_ps
    from levels
),

totals as (
    select
        row_key, staged, start_ps, idle_ps, gap_before_ps, gap_after_ps, in_launch,
        cast(
            coalesce(
                sum(greatest(start_ps - reached_ps, 0)) over (partition by key order by start_ps),
                0
            ) as bigint
        ) as idle_so_far_ps
    from reached
),

-- While a device is busy its group is: from one row of a device to its next the total grows only in
-- the idle time between the two.
pieces as (
    select
        *,
        idle_so_far_ps - lag(idle_so_far_ps) over (
            partition by row_key order by start_ps
        ) as nobody_ps
    from totals
),

ended as (
    select
        *,
        row_key // 2 as window_key,
        row_key % 2 as of_stage,
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
        sum(case when of_stage = 0 and in_launch = 1 then nobody_ps else 0 end),
        sum(case when of_stage = 0 then nobody_ps else 0 end),
        sum(case when of_stage = 1 then nobody_ps else 0 end)
    from ended
    where staged = 1 or gap_before_ps > 0 or gap_after_ps > 0
    group by window_key, gap_start_ps, gap_end_ps
)

select
    -- number of the window, as in _step_window_v1
    window_key,
    -- start of the gap
    gap_start_ps,
    -- end of the gap
    gap_end_ps,
    -- nobody of the group busy, a launch of the step open on the device
    cast(open_idle_ps as bigint) as open_idle_ps,
    -- nobody of the group busy
    cast(group_idle_ps as bigint) as group_idle_ps,
    -- nobody of the own stage busy; 0 where there is only one stage
    cast(stage_idle_ps as bigint) as stage_idle_ps
from gaps
