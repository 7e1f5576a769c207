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
        0 as is_first
    from windows as w
    inner join busy_intervals as b
        on b.run_id = w.run_id and b.device_id = w.device_id
        and b.request is not distinct from w.request and b.step is not distinct from w.step
    where b.category <> 'masked'
    union all
    select window_key, group_key, stage_key, stages, start_ps, start_ps, 1
    from windows
    union all
    select window_key, group_key, stage_key, stages, end_ps, end_ps, 0
    from windows
),

-- A mark ends a gap where it starts past all that is earlier; of several at one time the first does.
on_device as (
    select
        *,
        max(end_ps) over (
            partition by window_key order by start_ps
            rows between unbounded preceding and 1 preceding
        ) as reached_ps
    from marks
    where start_ps <= end_ps
),

edges as (
    select
        w.window_key, w.group_key, w.stage_key, w.stages, e.opened,
        least(greatest(e.at_ps, w.start_ps), w.end_ps) as at_ps
    from windows as w
    inner join launch_edges as e
        on e.run_id = w.run_id and e.device_id = w.device_id
        and e.request is not distinct from w.request and e.step is not distinct from w.step
),

with_edges as (
    select
        window_key, group_key, stage_key, stages, start_ps, end_ps, is_first,
        case when is_first = 0 and start_ps > reached_ps then reached_ps end as gap_start_ps,
        0 as is_edge, 0 as opened
    from on_device
    union all
    select
        window_key, group_key, stage_key, stages, at_ps, at_ps, 0, null, 1, opened
    from edges
),

-- Where there is one stage, the group says it all.
levels as (
    select
        window_key, start_ps, end_ps, is_first, gap_start_ps, is_edge, opened, 2 * group_key as key,
        case when stages > 1 then 1 else 0 end as staged
    from with_edges
    union all
    select
        window_key, start_ps, end_ps, is_first, gap_start_ps, is_edge, opened, 2 * stage_key + 1, 1
    from with_edges
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
        window_key, start_ps, is_first, gap_start_ps, is_edge, opened, staged,
        key % 2 as of_stage,
        cast(
            coalesce(
                sum(greatest(start_ps - group_reached_ps, 0)) over (
                    partition by key order by start_ps
                ),
                0
            ) as bigint
        ) as idle_so_far_ps
    from in_group
),

-- While a device is busy its group is: between two of these marks the total grows in gaps only.
pieces as (
    select
        *,
        idle_so_far_ps - lag(idle_so_far_ps) over (
            partition by window_key, of_stage order by start_ps, is_first desc, is_edge desc
        ) as group_idle_ps,
        lag(is_edge) over (
            partition by window_key, of_stage order by start_ps, is_first desc, is_edge desc
        ) as after_edge,
        sum(opened) over (
            partition by window_key, of_stage order by start_ps, is_first desc, is_edge desc
            rows between unbounded preceding and 1 preceding
        ) as open_launches
    from totals
    where gap_start_ps is not null or is_first = 1 or is_edge = 1
),

-- The pieces of a gap end with the mark that ends it. Few gaps are cut.
cut as (
    select
        *,
        min(case when gap_start_ps is not null then start_ps end) over (
            partition by window_key order by start_ps, is_first desc, is_edge desc
            rows between current row and unbounded following
        ) as gap_end_ps
    from pieces
    where is_edge = 1 or after_edge = 1 or staged = 1
),

gaps as (
    select
        window_key, gap_start_ps,
        start_ps as gap_end_ps,
        case when open_launches > 0 then group_idle_ps else 0 end as open_idle_ps,
        group_idle_ps,
        0 as stage_idle_ps
    from pieces
    where gap_start_ps is not null and after_edge = 0 and staged = 0
    union all
    select
        window_key,
        max(gap_start_ps),
        gap_end_ps,
        sum(case when of_stage = 0 and open_launches > 0 then group_idle_ps else 0 end),
        sum(case when of_stage = 0 then group_idle_ps else 0 end),
        sum(case when of_stage = 1 then group_idle_ps else 0 end)
    from cut
    where gap_end_ps is not null
    group by window_key, gap_end_ps
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
