-- one row per step's window on a device and gap of 100 ns or more in it
-- A gap is a time within the window in which nothing of the step runs on the device (device_time's
-- idle); SparseCores are left out. Each instant of it has one cause: imbalance: a peer of the same
-- stage is busy; pipeline: only peers of other stages are; device: no peer is, and a launch of the
-- step is open on the device; host: no peer is, and no launch is open; unattributed: devices are busy
-- that may or may not be peers, or the device has no launches. busy_stretches cuts a gap where a
-- launch of the step begins or ends on the device.
with beside as (
    select
        l.row_key, l.key, l.staged, s.start_ps, s.idle_ps, s.gap_before_ps, s.gap_after_ps,
        case when s.in_launch then 1 else 0 end as in_launch
    from _idle_level_v1 as l
    inner join busy_stretches as s
        on s.run_id = l.run_id and s.device_id = l.device_id
        and s.request is not distinct from l.request and s.step is not distinct from l.step
    where s.idle_ps + s.gap_before_ps + s.gap_after_ps >= 100000 or s.next_gap_ps >= 100000
),

changes as (
    select
        row_key, key, staged, start_ps, idle_ps, gap_before_ps, gap_after_ps, in_launch,
        0 as all_idle_ps
    from beside
    union all
    select null, key, null, end_ps, null, null, null, null, duration_ps
    from _all_idle_v1
),

-- While a device is busy its group is: from one row of a device to its next the total grows only in
-- the idle time between the two.
totals as (
    select
        *, sum(all_idle_ps) over (partition by key order by start_ps) as idle_so_far_ps
    from changes
),

pieces as (
    select
        row_key, staged, start_ps, idle_ps, gap_before_ps, gap_after_ps, in_launch,
        idle_so_far_ps - lag(idle_so_far_ps) over (
            partition by row_key order by start_ps
        ) as all_idle_ps
    from totals
    where row_key is not null
),

ended as (
    select
        row_key - row_key % 2 as window_key, row_key % 2 as level, staged, in_launch, all_idle_ps,
        gap_before_ps, gap_after_ps,
        start_ps - idle_ps - gap_before_ps as start_ps,
        start_ps + gap_after_ps as end_ps
    from pieces
    where idle_ps > 0 and idle_ps + gap_before_ps + gap_after_ps >= 100000
),

-- Few gaps are cut.
gaps as (
    select
        window_key, start_ps, end_ps,
        case when in_launch = 1 then all_idle_ps else 0 end as open_idle_ps,
        all_idle_ps as group_idle_ps,
        all_idle_ps as stage_idle_ps
    from ended
    where staged = 0 and gap_before_ps = 0 and gap_after_ps = 0
    union all
    select
        window_key, start_ps, end_ps,
        sum(case when level = 0 and in_launch = 1 then all_idle_ps else 0 end),
        sum(case when level = 0 then all_idle_ps else 0 end),
        sum(case when level = staged then all_idle_ps else 0 end)
    from ended
    where staged = 1 or gap_before_ps > 0 or gap_after_ps > 0
    group by window_key, start_ps, end_ps
),

placed as (
    select
        w.run_id, w.device_id, w.request, w.step, w.phase, c.start_ps,
        c.end_ps - c.start_ps as duration_ps,
        case when g.knows_peers then 1 else 0 end as knows_peers,
        case when g.has_launches then 1 else 0 end as has_launches,
        c.open_idle_ps, c.group_idle_ps, c.stage_idle_ps
    from gaps as c
    inner join _step_window_v1 as w on w.window_key = c.window_key
    inner join _device_group_v1 as g on g.run_id = w.run_id and g.device_id = w.device_id
)

select
    -- run
    run_id,
    -- device
    device_id,
    -- request; NULL without a marker
    request,
    -- forward pass within the request
    step,
    -- phase of the step
    phase,
    -- start
    start_ps,
    -- length
    cast(duration_ps as bigint) as duration_ps,
    -- no peer busy, a launch of the step open
    cast(has_launches * open_idle_ps as bigint) as device_ps,
    -- no peer busy, no launch of the step open
    cast(has_launches * (group_idle_ps - open_idle_ps) as bigint) as host_ps,
    -- a peer of the same stage busy
    cast(knows_peers * (duration_ps - stage_idle_ps) as bigint) as imbalance_ps,
    -- only peers of other stages busy
    cast(knows_peers * (stage_idle_ps - group_idle_ps) as bigint) as pipeline_ps,
    -- none of these causes can be determined
    cast(
        duration_ps - has_launches * group_idle_ps - knows_peers * (duration_ps - group_idle_ps)
        as bigint
    ) as unattributed_ps
from placed
