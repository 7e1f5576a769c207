-- one row per run, device, request and step
-- Each instant of a step's window belongs to the first that applies: a compute op runs; a
-- collective is in flight; a copy or host transfer runs; a barrier-cores wait; nothing. So
-- window = compute + exposed + exposed_copy + sync_wait + idle, exactly. The window runs from the
-- first op's start to the last op's end (control ops such as while loops aside), and is cut where
-- the device's next step starts; what runs past the cut counts nowhere. Ops outside every step
-- have no row, unless the device has no step at all: then all its ops are one row, step NULL.
with clipped as (
    select
        w.window_key,
        greatest(b.start_ps, w.start_ps) as start_ps,
        least(b.start_ps + b.duration_ps, w.end_ps) as end_ps,
        case
            when b.category = 'compute' then 1
            when b.category = 'collective' then 2
            when b.category = 'copy_running' then 3
            when b.category = 'sync_wait' then 4
        end as class
    from _step_window_v1 as w
    inner join busy_intervals as b
        on b.run_id = w.run_id and b.device_id = w.device_id
        and b.request is not distinct from w.request and b.step is not distinct from w.step
),

-- Intervals of one class do not overlap, so their lengths add up; of several classes at once, an
-- interval adds what lies past the latest end so far. Each class is what it adds to those before it.
reached as (
    select
        *,
        max(case when class <= 2 then end_ps end) over (
            partition by window_key order by start_ps
            rows between unbounded preceding and 1 preceding
        ) as transfer_end_ps,
        max(case when class <= 3 then end_ps end) over (
            partition by window_key order by start_ps
            rows between unbounded preceding and 1 preceding
        ) as copy_end_ps,
        max(end_ps) over (
            partition by window_key order by start_ps
            rows between unbounded preceding and 1 preceding
        ) as wait_end_ps
    from clipped
    where start_ps < end_ps and class is not null
),

added as (
    select
        window_key, class,
        end_ps - start_ps as length_ps,
        case
            when class <= 2
                then greatest(end_ps - greatest(start_ps, coalesce(transfer_end_ps, start_ps)), 0)
        end as transfer_ps,
        case
            when class <= 3
                then greatest(end_ps - greatest(start_ps, coalesce(copy_end_ps, start_ps)), 0)
        end as copy_ps,
        greatest(end_ps - greatest(start_ps, coalesce(wait_end_ps, start_ps)), 0) as wait_ps
    from reached
),

unions as (
    select
        window_key,
        coalesce(sum(case when class = 1 then length_ps end), 0) as compute_ps,
        coalesce(sum(case when class = 2 then length_ps end), 0) as collective_ps,
        coalesce(sum(case when class = 3 then length_ps end), 0) as copy_ps,
        coalesce(sum(transfer_ps), 0) as to_transfer_ps,
        coalesce(sum(copy_ps), 0) as to_copy_ps,
        sum(wait_ps) as to_wait_ps
    from added
    group by window_key
),

totals as (
    select
        *,
        compute_ps + collective_ps - to_transfer_ps as overlapped_ps,
        to_copy_ps - to_transfer_ps as exposed_copy_ps,
        to_wait_ps - to_copy_ps as sync_wait_ps
    from unions
),

split as (
    select
        w.run_id, w.device_id, w.request, w.step, w.phase, w.core, w.inferred, w.start_ps,
        w.end_ps - w.start_ps as window_ps,
        coalesce(t.compute_ps, 0) as compute_ps,
        coalesce(t.collective_ps, 0) as collective_ps,
        coalesce(t.overlapped_ps, 0) as overlapped_ps,
        coalesce(t.copy_ps, 0) as copy_ps,
        coalesce(t.exposed_copy_ps, 0) as exposed_copy_ps,
        coalesce(t.sync_wait_ps, 0) as sync_wait_ps
    from _step_window_v1 as w
    left join totals as t on t.window_key = w.window_key
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
    s.core,
    -- the device's identity was deduced: its times are not an accelerator's
    s.inferred,
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
