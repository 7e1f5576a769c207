-- one row per run, scope, device and pair of consecutive bursts
-- The time in which a network could be set up anew for another axis: from the latest end of a burst
-- to the start of the next one (traffic_burst); below zero the two overlap.
with followed as (
    select
        *,
        lag(axis) over (partition by run_id, scope, device_id order by burst_index) as from_axis,
        lag(end_ps) over (partition by run_id, scope, device_id order by burst_index)
            as from_end_ps
    from traffic_burst_v1
)

select
    -- run
    run_id,
    -- device or run
    scope,
    -- device; NULL in scope run
    device_id,
    -- number of the later burst
    burst_index,
    -- axis of the earlier burst
    from_axis,
    -- axis of the later burst
    axis as to_axis,
    -- phase of the later burst's first transfer; NULL outside every marker
    phase,
    -- start of the later burst, where the window ends
    start_ps,
    -- start of the later burst less the latest end of the earlier one
    start_ps - from_end_ps as window_ps,
    -- transfers of the later burst
    count as next_count,
    -- sum of S over the later burst
    payload_bytes as next_payload_bytes,
    -- bytes that the later burst sends on the wire
    bytes as next_bytes
from followed
where from_axis is not null
