-- one row per run, scope, device and burst
-- A burst: consecutive transfers of one axis, in the order of (start, end, op), until one of
-- another axis starts. scope device: each device's collectives; scope run: instances, which start
-- with their first and end with their last participant (device NULL). Collectives that move nothing
-- between devices (axis none, a device in no pair of a permute) are not transfers. Transfers whose
-- axis is not known (mixed, unclassified) count as an axis of their own.
select
    -- run
    a.run_id,
    -- device or run
    case when b.line_key % 2 = 0 then 'device' else 'run' end as scope,
    -- device; NULL in scope run
    b.device_id,
    -- number of the burst on its device or in its run, by start, from 0
    b.burst_index,
    -- mesh axes joined by +, or mixed or unclassified
    a.axis,
    -- phase of its first transfer; NULL outside every marker
    b.phase,
    -- start of its first transfer
    b.start_ps,
    -- latest end of its transfers
    b.end_ps,
    -- transfers
    b.count,
    -- sum of S
    b.payload_bytes,
    -- bytes that are sent on the wire: by the device, or by all participants that were traced
    b.bytes
from _burst_v1 as b
inner join _axis_key_v1 as a on a.axis_key = b.axis_key
