-- one row per run, device, phase and axis, and one over all axes, on which the device sends
-- How long transfers are in flight in which the device sends something: the union of their times.
-- Where each ends no earlier than the one before, the one before is the latest end so far: a running
-- maximum takes four times as long, and is left to devices on which a transfer lies within another.
with sending as (
    select
        run_number, axis_key, device_id, phase, start_ps, start_ps + duration_ps as end_ps
    from _collective_wire_v1
    where wire_bytes is distinct from 0
),

scoped as (
    select run_number, axis_key, device_id, phase, start_ps, end_ps
    from sending
    union all
    select run_number, cast(null as bigint), device_id, phase, start_ps, end_ps
    from sending
),

followed as (
    select
        *,
        lag(end_ps) over (
            partition by run_number, axis_key, device_id, phase order by start_ps, end_ps
        ) as before_ps
    from scoped
),

totals as (
    select
        run_number, axis_key, device_id, phase,
        max(case when end_ps < before_ps then 1 else 0 end) as is_nested,
        sum(end_ps - greatest(start_ps, coalesce(before_ps, start_ps))) as in_flight_ps
    from followed
    group by run_number, axis_key, device_id, phase
),

nested as (
    select
        s.*,
        max(s.end_ps) over (
            partition by s.run_number, s.axis_key, s.device_id, s.phase order by s.start_ps
            rows between unbounded preceding and 1 preceding
        ) as reached_ps
    from scoped as s
    inner join totals as t
        on t.run_number = s.run_number and t.axis_key is not distinct from s.axis_key
        and t.device_id = s.device_id and t.phase is not distinct from s.phase
    where t.is_nested = 1
),

unions as (
    select run_number, axis_key, device_id, phase, in_flight_ps
    from totals
    where is_nested = 0
    union all
    select
        run_number, axis_key, device_id, phase,
        sum(greatest(end_ps - greatest(start_ps, coalesce(reached_ps, start_ps)), 0))
    from nested
    group by run_number, axis_key, device_id, phase
)

select
    -- run
    r.run_id,
    -- device
    u.device_id,
    -- phase; NULL outside every marker
    u.phase,
    -- mesh axes joined by +, or mixed or unclassified; NULL over all axes
    a.axis,
    -- union of the times of the transfers
    cast(u.in_flight_ps as bigint) as in_flight_ps
from unions as u
inner join _run_number_v1 as r on r.run_number = u.run_number
left join _axis_number_v1 as a on a.axis_key = u.axis_key
