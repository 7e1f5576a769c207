-- one row per launch
-- Waits of a launch before it starts: queue is all of the time since the host enqueued it, dispatch
-- the part in which the device was free. The end of the previous launches is the latest end of all
-- that the device started earlier. A device that was busy up to the start (launches that overlap)
-- has a dispatch of 0 and a negative launch gap. The first launch of a device is the first in the
-- trace: earlier launches are not known, so its dispatch counts from the enqueue. Without a link to
-- the host, and where a launch seems to start before its enqueue, queue and dispatch are NULL.
with followed as (
    select
        *,
        start_ps - max(start_ps + duration_ps) over (
            partition by run_id, device_id order by start_ps, launch, duration_ps
            rows between unbounded preceding and 1 preceding
        ) as launch_gap_ps,
        case when start_ps >= enqueue_ps then start_ps - enqueue_ps end as queue_ps
    from launches
)

select
    -- run
    run_id,
    -- device
    device_id,
    -- number of the launch on the device, by start
    launch,
    -- one number for the same execution on all its devices
    launch_instance,
    -- compiled program
    program_id,
    -- name of the program
    module,
    -- prefill, decode, mixed, warmup, compile or step; NULL outside every marker
    phase,
    -- request; NULL without a marker
    request,
    -- forward pass within the request; in a run without markers the launch instance
    step,
    -- time at which the host enqueued it; NULL without a link
    enqueue_ps,
    -- start
    start_ps,
    -- duration
    duration_ps,
    -- from the enqueue to the start
    cast(queue_ps as bigint) as queue_ps,
    -- the part of that time in which no earlier launch ran on the device
    cast(
        case
            when queue_ps is not null
                then greatest(least(queue_ps, coalesce(launch_gap_ps, queue_ps)), 0)
        end as bigint
    ) as dispatch_ps,
    -- from the latest end of the device's earlier launches to the start; negative = overlap
    cast(launch_gap_ps as bigint) as launch_gap_ps,
    -- it starts before its enqueue: clocks of host and device disagree; NULL without a link
    start_ps < enqueue_ps as starts_before_enqueue
from followed
