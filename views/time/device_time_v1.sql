-- one row per run, device, request and step
-- Each instant of a step's window belongs to the first that applies: a compute op runs; a
-- collective is in flight; a copy or host transfer runs; a barrier-cores wait; nothing. So window =
-- compute + exposed + exposed_copy + sync_wait + idle, exactly. The window runs from the first op's
-- start to the last op's end (control ops such as while loops aside), and is cut where the device's
-- next step starts; time past the cut does not count. Ops outside every step have no row, unless
-- the device has no step at all: then all its ops are one row, step NULL. Ingest makes the split
-- once, from ops and busy intervals; an audit makes it again. A step's period is the time that it
-- takes of the device: from the end of the device's previous window to the end of its own, without the
-- time in which no request was open (between_requests); the first period is the window. Periods and
-- between_requests of a device add up to the time from its first window's start to its last's end.
-- In a run with kernels that communicate while they compute, or with sends that may (finding
-- kernel_communicates), compute, collective, overlapped and exposed are NULL: the trace does not say
-- how these ops divide their time. In a run predicted over optical circuits, waits for circuits are in
-- exposed and sync_wait, as a transfer's op or barrier runs then; table circuit_waits has them apart.
with kernels as (
    select run_id
    from device_steps
    group by run_id
    having max(communicating_ps) > 0
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
    -- the device is virtual, or its identity deduced: its times are not an accelerator's
    d.inferred or coalesce(d.core, '') = 'cpu' as inferred,
    -- start of the window
    s.start_ps,
    -- length of the window
    s.duration_ps as window_ps,
    -- a compute op runs
    case when k.run_id is null then s.compute_ps end as compute_ps,
    -- a collective is in flight
    case when k.run_id is null then s.collective_ps end as collective_ps,
    -- a collective is in flight while a compute op runs
    case when k.run_id is null then s.overlapped_ps end as overlapped_ps,
    -- a collective is in flight and no compute op runs
    cast(
        case when k.run_id is null then s.collective_ps - s.overlapped_ps end as bigint
    ) as exposed_ps,
    -- a copy or host transfer runs
    s.copy_ps,
    -- a copy or host transfer runs, no compute op does and no collective is in flight
    s.exposed_copy_ps,
    -- only a barrier wait runs
    s.sync_wait_ps,
    -- compute + exposed + exposed_copy
    cast(s.compute_ps + s.collective_ps - s.overlapped_ps + s.exposed_copy_ps as bigint) as busy_ps,
    -- nothing runs
    cast(
        s.duration_ps - s.compute_ps - (s.collective_ps - s.overlapped_ps) - s.exposed_copy_ps
        - s.sync_wait_ps as bigint
    ) as idle_ps,
    -- the window, and the time before it since the device's window before, less between_requests;
    -- NULL where requests are marked and clocks cannot be compared
    p.period_ps,
    -- time between the device's window before and this one in which no request was open, from the
    -- markers of requests; 0 in a run without them, NULL as the period
    p.between_requests_ps
from device_steps as s
inner join _step_period_v1 as p
    on p.run_id = s.run_id and p.device_id = s.device_id
    and p.request is not distinct from s.request and p.step is not distinct from s.step
left join devices as d on d.run_id = s.run_id and d.device_id = s.device_id
left join kernels as k on k.run_id = s.run_id
