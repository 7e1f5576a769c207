-- one row per run, scope, device and burst
-- The bursts of traffic_burst, with keys in place of texts, and the burst before each one. Within a
-- burst, a transfer's place among all transfers and its place among those of its axis grow
-- together.
with placed as (
    select
        line_key, device_id, axis_key, phase, start_ps, end_ps, payload_bytes, wire_bytes,
        row_number() over (
            partition by line_key, device_id
            order by start_ps, end_ps, op, axis_key, phase, payload_bytes
        ) as place
    from _transfer_v1
),

ordered as (
    select
        *,
        row_number() over (partition by line_key, device_id, axis_key order by place)
            as place_on_axis,
        lag(place) over (partition by line_key, device_id, axis_key order by place)
            as last_place
    from placed
),

bursts as (
    select
        line_key, device_id, axis_key,
        min(place) as first_place,
        max(case when last_place is distinct from place - 1 then phase end) as phase,
        min(start_ps) as start_ps,
        max(end_ps) as end_ps,
        count(*) as count,
        case when count(payload_bytes) = count(*) then sum(payload_bytes) end as payload_bytes,
        case when count(wire_bytes) = count(*) then sum(wire_bytes) end as bytes
    from ordered
    group by line_key, device_id, axis_key, place - place_on_axis
),

followed as (
    select
        *,
        row_number() over (partition by line_key, device_id order by first_place)
            as burst_number,
        lag(axis_key) over (partition by line_key, device_id order by first_place)
            as from_axis_key,
        lag(end_ps) over (partition by line_key, device_id order by first_place)
            as from_end_ps
    from bursts
)

select
    -- key of run and scope: 0 device, 1 run
    line_key,
    -- device; NULL in scope run
    device_id,
    -- number of the burst on its device or in its run, by start, from 0
    cast(burst_number - 1 as bigint) as burst_index,
    -- key of run and axis
    axis_key,
    -- phase of its first transfer; NULL outside every marker
    phase,
    -- start of its first transfer
    start_ps,
    -- latest end of its transfers
    end_ps,
    -- transfers
    cast(count as bigint) as count,
    -- sum of S
    cast(payload_bytes as bigint) as payload_bytes,
    -- bytes that are sent on the wire: by the device, or by all participants that were traced
    cast(bytes as double) as bytes,
    -- key of run and axis of the previous burst; NULL on the first
    from_axis_key,
    -- latest end of the previous burst; NULL on the first
    from_end_ps
from followed
