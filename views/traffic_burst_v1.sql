-- one row per run, scope, device and burst
-- A burst: consecutive transfers of one axis, in the order of (start, end, op), until one of another
-- axis starts. scope device: each device's collectives; scope run: instances, which start with their
-- first and end with their last participant (device NULL). What moves nothing between devices
-- (axis none, a device that is in no pair of a permute) is no transfer. Transfers of no known axis
-- (mixed, unclassified) count as an axis of their own.
-- Within a burst a transfer's place among all and its place among those of its axis grow together.
with placed as (
    select
        *,
        row_number() over (
            partition by line_key, device_id
            order by start_ps, end_ps, op, axis, phase, payload_bytes
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
        run_id, scope, device_id, axis,
        min(place) as first_place,
        max(case when last_place is distinct from place - 1 then phase end) as phase,
        min(start_ps) as start_ps,
        max(end_ps) as end_ps,
        count(*) as count,
        case when count(payload_bytes) = count(*) then sum(payload_bytes) end as payload_bytes,
        case when count(wire_bytes) = count(*) then sum(wire_bytes) end as bytes
    from ordered
    group by run_id, scope, device_id, axis, place - place_on_axis
)

select
    -- run
    run_id,
    -- device or run
    scope,
    -- device; NULL in scope run
    device_id,
    -- number of the burst on its device or in its run, by start, from 0
    cast(
        row_number() over (partition by run_id, scope, device_id order by first_place) - 1 as bigint
    ) as burst_index,
    -- mesh axes joined by +, or mixed or unclassified
    axis,
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
    cast(bytes as double) as bytes
from bursts
