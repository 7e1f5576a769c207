-- one row per run, device, phase and axis, and one over all axes, on which the device sends
-- Union of the times of the transfers in which the device sends bytes. Where no two transfers of a
-- device and phase are in flight at once, an axis' union is the sum of its times, and one sort of
-- the collectives is enough. Where each ends no earlier than the one before, the one before is the
-- latest end so far: a running maximum takes four times as long as that.
with sending as (
    select
        run_key, device_id, phase, axis_key, start_ps, start_ps + duration_ps as end_ps
    from _collective_wire_v1
    where wire_bytes is distinct from 0
),

devices_and_phases as (
    select run_key, device_id, phase
    from sending
    group by run_key, device_id, phase
),

-- Numbers keep texts out of the keys of a window.
lines as (
    select
        run_key, device_id, phase,
        row_number() over (partition by 1 order by run_key, device_id, phase) as line
    from devices_and_phases
),

numbered as (
    select l.line, s.axis_key, s.start_ps, s.end_ps
    from sending as s
    inner join lines as l
        on l.run_key = s.run_key and l.device_id = s.device_id
        and l.phase is not distinct from s.phase
),

followed as (
    select
        *,
        lag(end_ps) over (partition by line order by start_ps, end_ps) as before_ps
    from numbered
),

summed as (
    select
        line, axis_key,
        max(case when start_ps < before_ps then 1 else 0 end) as is_overlapping,
        max(case when end_ps < before_ps then 1 else 0 end) as is_nested,
        sum(end_ps - start_ps) as duration_ps,
        sum(end_ps - greatest(start_ps, coalesce(before_ps, start_ps))) as in_flight_ps
    from followed
    group by line, axis_key
),

over_axes as (
    select
        line,
        max(is_overlapping) as is_overlapping,
        max(is_nested) as is_nested,
        sum(in_flight_ps) as in_flight_ps
    from summed
    group by line
),

-- Unions that the sort above does not give: axes of lines that overlap, all axes of lines that
-- nest.
scoped as (
    select n.*
    from numbered as n
    inner join over_axes as o on o.line = n.line
    where o.is_overlapping = 1
    union all
    select n.line, cast(null as bigint), n.start_ps, n.end_ps
    from numbered as n
    inner join over_axes as o on o.line = n.line
    where o.is_nested = 1
),

reached as (
    select
        *,
        max(end_ps) over (
            partition by line, axis_key order by start_ps
            rows between unbounded preceding and 1 preceding
        ) as reached_ps
    from scoped
),

unions as (
    select line, cast(null as bigint) as axis_key, in_flight_ps
    from over_axes
    where is_nested = 0
    union all
    select s.line, s.axis_key, s.duration_ps
    from summed as s
    inner join over_axes as o on o.line = s.line
    where o.is_overlapping = 0
    union all
    select
        line, axis_key,
        sum(greatest(end_ps - greatest(start_ps, coalesce(reached_ps, start_ps)), 0))
    from reached
    group by line, axis_key
)

select
    -- run
    r.run_id,
    -- device
    l.device_id,
    -- phase; NULL outside every marker
    l.phase,
    -- mesh axes joined by +, or mixed or unclassified; NULL over all axes
    a.axis,
    -- union of the times of the transfers
    cast(u.in_flight_ps as bigint) as in_flight_ps
from unions as u
inner join lines as l on l.line = u.line
inner join _run_key_v1 as r on r.run_key = l.run_key
left join _axis_key_v1 as a on a.axis_key = u.axis_key
