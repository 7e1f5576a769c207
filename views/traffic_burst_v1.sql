-- one row per run, scope, device and burst
-- A burst: consecutive transfers of one axis, in the order of (start, end, op), until one of another
-- axis starts. scope device: each device's collectives; scope run: instances, which start with their
-- first and end with their last participant (device NULL). What moves nothing between devices
-- (axis none, a device that is in no pair of a permute) is no transfer. Transfers of no known axis
-- (mixed, unclassified) count as an axis of their own.
-- Equal transfers have one order in all that follows.
with placed as (
    select
        *,
        row_number() over (
            partition by run_id, scope, device_id
            order by start_ps, end_ps, op, axis, phase, payload_bytes
        ) as place
    from _transfer_v1
),

ordered as (
    select
        *,
        lag(axis) over (partition by run_id, scope, device_id order by place) as last_axis
    from placed
),

numbered as (
    select
        *,
        case when axis is distinct from last_axis then 1 else 0 end as is_first,
        sum(case when axis is distinct from last_axis then 1 else 0 end) over (
            partition by run_id, scope, device_id order by place
            rows between unbounded preceding and current row
        ) - 1 as burst
    from ordered
),

counted as (
    select *, cast(burst as bigint) as burst_index
    from numbered
)

select
    -- run
    run_id,
    -- device or run
    scope,
    -- device; NULL in scope run
    device_id,
    -- number of the burst on its device or in its run, by start, from 0
    burst_index,
    -- mesh axes joined by +, or mixed or unclassified
    min(axis) as axis,
    -- phase of its first transfer; NULL outside every marker
    max(case when is_first = 1 then phase end) as phase,
    -- start of its first transfer
    min(start_ps) as start_ps,
    -- latest end of its transfers
    max(end_ps) as end_ps,
    -- transfers
    cast(count(*) as bigint) as count,
    -- sum of S
    cast(case when count(payload_bytes) = count(*) then sum(payload_bytes) end as bigint)
        as payload_bytes,
    -- bytes that are sent on the wire: by the device, or by all participants that were traced
    cast(case when count(wire_bytes) = count(*) then sum(wire_bytes) end as double) as bytes
from counted
group by run_id, scope, device_id, burst_index
