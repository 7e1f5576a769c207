-- one row per run, scope, member of the scope and burst
-- A burst: consecutive transfers of one axis, in the order of (start, end, op), until one of
-- another axis starts. scope device: each device's collectives. scope run: instances, which start
-- with their first and end with their last participant. scope group: the instances of one set of
-- peers, the devices with equal coordinates on the data axes (dp, data, fsdp), so that independent
-- replicas are not mixed; an instance belongs to every set that it has traced members of, whole.
-- There are no sets without a mesh, nor of devices whose identity was deduced. scope rail: instances
-- with traced members on several hosts, what the optical switch of a rail sees; an instance belongs
-- to the rail of every local ordinal that its traced members have. Collectives that move nothing
-- between devices (axis none, a device in no pair of a permute) are not transfers. Transfers whose
-- axis is not known (mixed, unclassified) count as an axis of their own. Transfers that start together
-- are in the order of their ends, then of op, axis, phase and S: one without length comes before
-- others that start with it, and one that starts where another ends comes after it.
select
    -- run
    a.run_id,
    -- device, run, group or rail
    l.scope,
    -- device; NULL in other scopes than device
    case when l.scope = 'device' then b.member_id end as device_id,
    -- set of peers: the place in the mesh of its first device; NULL in other scopes than group
    case when l.scope = 'group' then b.member_id end as group_id,
    -- rail: number of its devices within their hosts; NULL in other scopes than rail
    case when l.scope = 'rail' then b.member_id end as rail_id,
    -- number of the burst in its member of the scope or its run, by start, from 0
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
    -- bytes that are sent on the wire: by the device, or by all participants that were traced, in the set or not
    b.bytes
from _burst_v2 as b
inner join _line_v1 as l on l.line_key = b.line_key
inner join _axis_key_v1 as a on a.axis_key = b.axis_key
