-- one row per run, scope, member of the scope and pair of consecutive bursts
-- The time in which a network could be reconfigured for another axis: from the latest end of a
-- burst to the start of the next one (traffic_burst, with its scopes); 0 where the next starts at that
-- very end, below zero where the two overlap.
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
    -- number of the later burst
    b.burst_index,
    -- axis of the earlier burst
    f.axis as from_axis,
    -- axis of the later burst
    a.axis as to_axis,
    -- phase of the later burst's first transfer; NULL outside every marker
    b.phase,
    -- start of the later burst, where the window ends
    b.start_ps,
    -- start of the later burst less the latest end of the earlier one
    b.start_ps - b.from_end_ps as window_ps,
    -- transfers of the later burst
    b.count as next_count,
    -- sum of S over the later burst
    b.payload_bytes as next_payload_bytes,
    -- bytes that the later burst sends on the wire
    b.bytes as next_bytes
from _burst_v2 as b
inner join _line_v1 as l on l.line_key = b.line_key
inner join _axis_key_v1 as f on f.axis_key = b.from_axis_key
inner join _axis_key_v1 as a on a.axis_key = b.axis_key
