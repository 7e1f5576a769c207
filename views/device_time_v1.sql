-- one row per run, device, request and step
-- Each instant of a step's window belongs to the first that applies: a compute op runs; a
-- collective is in flight; a copy or host transfer runs; a barrier-cores wait; nothing. So
-- window = compute + exposed + exposed_copy + sync_wait + idle, exactly. The window runs from the
-- first op's start to the last op's end (control ops such as while loops aside), and is cut where
-- the device's next step starts; what runs past the cut counts nowhere. Ops outside every step
-- have no row, unless the device has no step at all: then all its ops are one row, step NULL.
with spans as (
    select
        run_id, device_id, request, step,
        min(phase) as phase,
        max(phase) as last_phase,
        min(start_ps) as first_ps,
        max(start_ps + duration_ps) as last_ps
    from ops
    where category <> 'control'
    group by run_id, device_id, request, step
),

weighed as (
    select
        *,
        max(case when step is null then 0 else 1 end) over (
            partition by run_id, device_id
        ) as has_steps
    from spans
),

followed as (
    select
        *,
        lead(first_ps) over (
            partition by run_id, device_id order by first_ps, last_ps, request, step
        ) as next_ps
    from weighed
    where step is not null or has_steps = 0
),

windows as (
    select
        run_id, device_id, request, step,
        case when phase = last_phase then phase when phase < last_phase then 'mixed' end as phase,
        first_ps as start_ps,
        case when next_ps < last_ps then next_ps else last_ps end as end_ps
    from followed
),

clipped as (
    select
        w.run_id, w.device_id, w.request, w.step, b.category,
        greatest(b.start_ps, w.start_ps) as start_ps,
        least(b.start_ps + b.duration_ps, w.end_ps) as end_ps
    from windows as w
    inner join busy_intervals as b
        on b.run_id = w.run_id and b.device_id = w.device_id
        and b.request is not distinct from w.request and b.step is not distinct from w.step
),

inside as (
    select
        run_id, device_id, request, step, start_ps, end_ps,
        case when category = 'compute' then 1 else 0 end as compute,
        case when category = 'collective' then 1 else 0 end as collective,
        case when category = 'copy_running' then 1 else 0 end as copy,
        case when category = 'sync_wait' then 1 else 0 end as sync_wait
    from clipped
    where start_ps < end_ps
),

edges as (
    select run_id, device_id, request, step, start_ps as at_ps, compute, collective, copy, sync_wait
    from inside
    union all
    select run_id, device_id, request, step, end_ps, -compute, -collective, -copy, -sync_wait
    from inside
),

moments as (
    select
        run_id, device_id, request, step, at_ps,
        sum(compute) as compute,
        sum(collective) as collective,
        sum(copy) as copy,
        sum(sync_wait) as sync_wait
    from edges
    group by run_id, device_id, request, step, at_ps
),

-- From each moment to the next nothing starts or ends; the running sums say what is open.
pieces as (
    select
        run_id, device_id, request, step,
        lead(at_ps) over (partition by run_id, device_id, request, step order by at_ps) - at_ps
            as length_ps,
        sum(compute) over (partition by run_id, device_id, request, step order by at_ps) as compute,
        sum(collective) over (partition by run_id, device_id, request, step order by at_ps)
            as collective,
        sum(copy) over (partition by run_id, device_id, request, step order by at_ps) as copy,
        sum(sync_wait) over (partition by run_id, device_id, request, step order by at_ps)
            as sync_wait
    from moments
),

totals as (
    select
        run_id, device_id, request, step,
        sum(case when compute > 0 then length_ps end) as compute_ps,
        sum(case when collective > 0 then length_ps end) as collective_ps,
        sum(case when compute > 0 and collective > 0 then length_ps end) as overlapped_ps,
        sum(case when copy > 0 then length_ps end) as copy_ps,
        sum(case when compute = 0 and collective = 0 and copy > 0 then length_ps end)
            as exposed_copy_ps,
        sum(case when compute = 0 and collective = 0 and copy = 0 and sync_wait > 0 then length_ps end)
            as sync_wait_ps
    from pieces
    group by run_id, device_id, request, step
),

split as (
    select
        w.run_id, w.device_id, w.request, w.step, w.phase, w.start_ps,
        w.end_ps - w.start_ps as window_ps,
        coalesce(t.compute_ps, 0) as compute_ps,
        coalesce(t.collective_ps, 0) as collective_ps,
        coalesce(t.overlapped_ps, 0) as overlapped_ps,
        coalesce(t.copy_ps, 0) as copy_ps,
        coalesce(t.exposed_copy_ps, 0) as exposed_copy_ps,
        coalesce(t.sync_wait_ps, 0) as sync_wait_ps
    from windows as w
    left join totals as t
        on t.run_id = w.run_id and t.device_id = w.device_id
        and t.request is not distinct from w.request and t.step is not distinct from w.step
)

select
    -- run
    s.run_id,
    -- device
    s.device_id,
    -- request; NULL without a marker
    s.request,
    -- forward pass within the request; in a run without markers the launch instance
    s.step,
    -- phase of the step's ops; mixed where they fall under several
    s.phase,
    -- core of the device: tensorcore, sparsecore, gpu or cpu
    d.core,
    -- the device's identity was deduced: its times are not an accelerator's
    d.inferred,
    -- start of the window
    s.start_ps,
    -- length of the window
    cast(s.window_ps as bigint) as window_ps,
    -- a compute op runs
    cast(s.compute_ps as bigint) as compute_ps,
    -- a collective is in flight
    cast(s.collective_ps as bigint) as collective_ps,
    -- a collective is in flight while a compute op runs
    cast(s.overlapped_ps as bigint) as overlapped_ps,
    -- a collective is in flight and no compute op runs
    cast(s.collective_ps - s.overlapped_ps as bigint) as exposed_ps,
    -- a copy or host transfer runs
    cast(s.copy_ps as bigint) as copy_ps,
    -- a copy or host transfer runs, no compute op does and no collective is in flight
    cast(s.exposed_copy_ps as bigint) as exposed_copy_ps,
    -- only a barrier wait
    cast(s.sync_wait_ps as bigint) as sync_wait_ps,
    -- compute + exposed + exposed_copy
    cast(s.compute_ps + s.collective_ps - s.overlapped_ps + s.exposed_copy_ps as bigint) as busy_ps,
    -- nothing at all
    cast(
        s.window_ps - s.compute_ps - (s.collective_ps - s.overlapped_ps) - s.exposed_copy_ps
        - s.sync_wait_ps as bigint
    ) as idle_ps
from split as s
left join devices as d on d.run_id = s.run_id and d.device_id = s.device_id
