-- one row per step's window on a device and gap in it
-- A gap is a time within the window in which nothing of the step runs on the device (device_time's
-- idle), of any length; SparseCores are left out. What others did meanwhile is told by differences
-- of running totals at its ends: the time with no device of the peer group busy, and with none of
-- the own stage, within the same step. A gap is cut where a launch of the step begins or ends on the
-- device, so that the time with an open launch is told too.
with windows as (
    select
        w.window_key, w.run_id, w.device_id, w.request, w.step, w.start_ps, w.end_ps, g.stages,
        min(w.window_key) over (
            partition by w.run_id, w.request, w.step, g.peer_group
        ) as group_key,
        min(w.window_key) over (
            partition by w.run_id, w.request, w.step, g.peer_group, g.stage
        ) as stage_key
    from _step_window_v1 as w
    inner join _device_group_v1 as g on g.run_id = w.run_id and g.device_id = w.device_id
),

launch_edges as (
    select run_id, device_id, request, step, start_ps as at_ps, 1 as opened
    from launches
    union all
    select run_id, device_id, request, step, start_ps + duration_ps, -1
    from launches
),

marks as (
    select
        w.window_key, w.group_key, w.stage_key, w.stages,
        greatest(b.start_ps, w.start_ps) as start_ps,
        least(b.start_ps + b.duration_ps, w.end_ps) as end_ps,
        0 as opened, 0 as is_edge, 0 as is_first
    from windows as w
    inner join busy_intervals as b
        on b.run_id = w.run_id and b.device_id = w.device_id
        and b.request is not distinct from w.request and b.step is not distinct from w.step
    where b.category <> 'masked'
    union all
    select window_key, group_key, stage_key, stages, start_ps, start_ps, 0, 0, 1
    from windows
    union all
    select window_key, group_key, stage_key, stages, end_ps, end_ps, 0, 0, 0
    from windows
    union all
    select
        w.window_key, w.group_key, w.stage_key, w.stages,
        least(greatest(e.at_ps, w.start_ps), w.end_ps),
        least(greatest(e.at_ps, w.start_ps), w.end_ps),
        e.opened, 1, 0
    from windows as w
    inner join launch_edges as e
        on e.run_id = w.run_id and e.device_id = w.device_id
        and e.request is not distinct from w.request and e.step is not distinct from w.step
),

-- The first of several marks at one time has seen all that is earlier; the others begin no piece.
on_device as (
    select
        *,
        max(end_ps) over (
            partition by window_key order by start_ps
            rows between unbounded preceding and 1 preceding
        ) as reached_ps,
        max(case when is_edge = 0 then end_ps end) over (
            partition by window_key order by start_ps
            rows between unbounded preceding and 1 preceding
        ) as busy_until_ps,
        sum(opened) over (
            partition by window_key order by start_ps
            rows between unbounded preceding and 1 preceding
        ) as open_launches
    from marks
    where start_ps <= end_ps
),

-- Where there is one stage, the group says it all.
levels as (
    select
        window_key, start_ps, end_ps, is_first, reached_ps, busy_until_ps, open_launches,
        2 * group_key as key, 0 as of_stage
    from on_device
    union all
    select
        window_key, start_ps, end_ps, is_first, reached_ps, busy_until_ps, open_launches,
        2 * stage_key + 1, 1
    from on_device
    where stages > 1
),

in_group as (
    select
        *,
        max(end_ps) over (
            partition by key order by start_ps rows between unbounded preceding and 1 preceding
        ) as group_reached_ps
    from levels
),

totals as (
    select
        *,
        sum(greatest(start_ps - group_reached_ps, 0)) over (
            partition by key order by start_ps
        ) as idle_so_far_ps
    from in_group
),

-- While a device is busy its group is: the total at a piece's start is that at the end of the piece
-- before, or at the window's start.
pieces as (
    select
        *,
        coalesce(idle_so_far_ps, 0) - coalesce(lag(idle_so_far_ps) over (
            partition by window_key, of_stage order by start_ps, is_first desc
        ), 0) as group_idle_ps
    from totals
    where start_ps > reached_ps or is_first = 1
)

select
    -- number of the window, as in _step_window_v1
    window_key,
    -- start of the gap
    busy_until_ps as gap_start_ps,
    -- end of the gap
    max(start_ps) as gap_end_ps,
    -- nobody of the group busy, a launch of the step open on the device
    cast(
        sum(case when of_stage = 0 and open_launches > 0 then group_idle_ps else 0 end) as bigint
    ) as open_idle_ps,
    -- nobody of the group busy
    cast(sum(case when of_stage = 0 then group_idle_ps else 0 end) as bigint) as group_idle_ps,
    -- nobody of the own stage busy; 0 where there is only one stage
    cast(sum(case when of_stage = 1 then group_idle_ps else 0 end) as bigint) as stage_idle_ps
from pieces
where start_ps > reached_ps
group by window_key, busy_until_ps
