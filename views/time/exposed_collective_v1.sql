-- one row per run, phase, axis, kind, layer, component and name of collective
-- Which collectives keep devices from computing. An instant of a step's window in which collectives
-- are in flight and no compute op runs belongs in equal parts to the collectives then in flight, so
-- that exposed_ps adds up to that of device_time over the phase's steps; SparseCores, and devices without
-- steps beside ones with steps, are left out, as in comm_compute. A collective is of the step that it started in, its phase is that step's
-- window's, and it is cut at the window's start and end. One that only touches another, a compute op
-- or the window's end shares no time with it; one of no length is counted and has no time. Ops whose
-- other half (start or done) is missing are not a collective: their exposed time is a row with op, axis
-- and kind NULL and a count of 0. Programs that name a collective alike share its row. In a run predicted
-- over optical circuits, table circuit_waits has what of this time its collectives wait for circuits.
with placed as (
    select *, max(step) over (partition by run_id) as last_step
    from _step_window_v1
    where core is distinct from 'sparsecore'
),

windows as (
    select run_id, device_id, request, step, phase, window_key, start_ps, end_ps, overlapped_ps
    from placed
    where step is not null or last_step is null
),

flights as (
    select
        w.run_id, w.phase, w.window_key, c.axis, c.kind, c.layer, c.component, c.op,
        least(greatest(c.start_ps, w.start_ps), w.end_ps) as start_ps,
        greatest(least(c.start_ps + c.duration_ps, w.end_ps), w.start_ps) as end_ps
    from _collective_wire_v1 as c
    inner join windows as w
        on w.run_id = c.run_id and w.device_id = c.device_id
        and w.request is not distinct from c.request and w.step is not distinct from c.step
),

-- Of a device's collectives by start, one that ends after the next one starts. Where two of a step
-- overlap, the first of them does.
followed as (
    select
        run_id, device_id, request, step, start_ps + duration_ps as end_ps,
        lead(start_ps) over (partition by run_id, device_id order by start_ps) as next_ps
    from collectives
),

crossing as (
    select run_id, device_id, request, step
    from followed
    where next_ps < end_ps
    group by run_id, device_id, request, step
),

-- Windows in which times have to be divided; in the others all time in flight is exposed: none of their
-- collectives overlaps with another, or with compute ops.
divided as (
    select window_key
    from windows
    where overlapped_ps > 0
    union
    select w.window_key
    from crossing as c
    inner join windows as w
        on w.run_id = c.run_id and w.device_id = c.device_id
        and w.request is not distinct from c.request and w.step is not distinct from c.step
),

kinds as (
    select
        f.run_id, f.phase, f.axis, f.kind, f.layer, f.component, f.op,
        row_number() over (
            partition by 1 order by f.run_id, f.phase, f.axis, f.kind, f.layer, f.component, f.op
        ) as number,
        count(*) as count,
        sum(f.end_ps - f.start_ps) as in_flight_ps,
        sum(case when d.window_key is null then f.end_ps - f.start_ps else 0 end) as alone_ps
    from flights as f
    left join divided as d on d.window_key = f.window_key
    group by f.run_id, f.phase, f.axis, f.kind, f.layer, f.component, f.op
),

-- Few windows, or none: they are chosen before rows are joined to kinds by all these columns.
crowded as (
    select f.*
    from flights as f
    inner join divided as d on d.window_key = f.window_key
),

numbered as (
    select f.window_key, k.number, f.start_ps, f.end_ps
    from crowded as f
    inner join kinds as k
        on k.run_id = f.run_id and k.phase is not distinct from f.phase and k.axis = f.axis
        and k.kind is not distinct from f.kind and k.layer is not distinct from f.layer
        and k.component is not distinct from f.component and k.op = f.op
),

-- Starts and ends of collectives among the merged compute intervals, each by its start. Where no
-- collective overlaps with compute ops, these do not matter: most windows are sorted without them.
events as (
    select
        window_key, number, start_ps as at_ps, cast(1 as bigint) as change,
        cast(0 as bigint) as computing_ps, cast(null as bigint) as computed_ps
    from numbered
    union all
    select window_key, number, end_ps, -1, 0, null
    from numbered
    union all
    select w.window_key, null, b.start_ps, 0, b.duration_ps, b.start_ps + b.duration_ps
    from busy_intervals as b
    inner join windows as w
        on w.run_id = b.run_id and w.device_id = b.device_id
        and w.request is not distinct from b.request and w.step is not distinct from b.step
    where b.category = 'compute' and w.overlapped_ps > 0
),

reached as (
    select
        *,
        sum(computing_ps) over (
            partition by window_key order by at_ps
            rows between unbounded preceding and current row
        ) as begun_ps,
        max(computed_ps) over (
            partition by window_key order by at_ps
            rows between unbounded preceding and current row
        ) as computed_until_ps
    from events
),

-- Time before each start and end in which no compute op runs. An interval that begins at that very
-- time adds nothing, in whatever order the two are.
free as (
    select
        window_key, number, change, at_ps,
        at_ps - begun_ps + greatest(coalesce(computed_until_ps - at_ps, 0), 0) as free_ps
    from reached
    where number is not null
),

-- The piece before each start and end, which no time passes between at one time: their order does
-- not matter.
pieces as (
    select
        window_key, number, change, at_ps,
        free_ps - lag(free_ps) over (partition by window_key order by at_ps) as free_ps,
        sum(change) over (
            partition by window_key order by at_ps
            rows between unbounded preceding and 1 preceding
        ) as in_flight
    from free
),

exposed as (
    select
        window_key, number, change, at_ps, in_flight,
        case when in_flight > 0 then free_ps else 0 end as exposed_ps
    from pieces
),

totals as (
    select
        number, change,
        sum(coalesce(cast(exposed_ps as double) / nullif(in_flight, 0), 0)) over (
            partition by window_key order by at_ps
        ) as reached_ps
    from exposed
),

owned as (
    select number, sum(-change * reached_ps) as exposed_ps
    from totals
    where number is not null
    group by number
),

in_windows as (
    select window_key, sum(exposed_ps) as shared_ps
    from exposed
    group by window_key
),

parts as (
    select w.run_id, w.phase, i.shared_ps
    from in_windows as i
    inner join windows as w on w.window_key = i.window_key
    union all
    select run_id, phase, alone_ps from kinds
),

shared as (
    select run_id, phase, sum(shared_ps) as shared_ps
    from parts
    group by run_id, phase
),

timed as (
    select *, max(step) over (partition by run_id) as last_step
    from device_time_v1
    where core is distinct from 'sparsecore'
),

phases as (
    select run_id, phase, sum(exposed_ps) as exposed_ps,
        case when count(period_ps) = count(*) then sum(period_ps) end as period_ps
    from timed
    where step is not null or last_step is null
    group by run_id, phase
),

found as (
    select
        k.run_id, k.phase, k.axis, k.kind, k.layer, k.component, k.op, k.count, k.in_flight_ps,
        k.alone_ps + coalesce(o.exposed_ps, 0) as exposed_ps
    from kinds as k
    left join owned as o on o.number = k.number
    union all
    select
        p.run_id, p.phase, null, null, null, null, null, 0, 0,
        p.exposed_ps - coalesce(s.shared_ps, 0)
    from phases as p
    left join shared as s on s.run_id = p.run_id and s.phase is not distinct from p.phase
    where p.exposed_ps > coalesce(s.shared_ps, 0)
)

select
    -- run
    f.run_id,
    -- phase of the step's ops; NULL outside every marker
    f.phase,
    -- mesh axes joined by +, or none, mixed or unclassified
    f.axis,
    -- kind of the collective
    f.kind,
    -- layer of the model; NULL where unknown
    f.layer,
    -- part of the layer; NULL where unknown
    f.component,
    -- name of the HLO instruction
    f.op,
    -- collectives on devices, in steps
    cast(f.count as bigint) as count,
    -- sum of their times in flight, overlapping ones each in full
    cast(f.in_flight_ps as bigint) as in_flight_ps,
    -- their parts of the time in which no compute op runs
    cast(f.exposed_ps as double) as exposed_ps,
    -- sum of the periods of the phase's steps, over devices (device_time); NULL where one is not known
    cast(p.period_ps as bigint) as period_ps,
    -- exposed / period
    f.exposed_ps / nullif(cast(p.period_ps as double), 0) as exposed_ratio
from found as f
inner join phases as p on p.run_id = f.run_id and p.phase is not distinct from f.phase
