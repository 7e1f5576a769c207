-- one row per run, request and step
-- How evenly a step's work is spread over its devices, SparseCores left out: busiest device / mean
-- - 1, over the devices that ran an op of the step. Busy time (compute, exposed collectives and
-- copies) holds the time that a device waits within a collective for a slower one, which hides an
-- imbalance where the trace shows no barriers; compute time does not. Ops outside every step have
-- no row, unless the run has no step at all: then they are one row, step NULL.
with ranked as (
    select
        run_id, device_id, request, step, phase, inferred, busy_ps, compute_ps,
        max(busy_ps) over (partition by run_id, request, step) as max_busy_ps,
        max(compute_ps) over (partition by run_id, request, step) as max_compute_ps,
        max(step) over (partition by run_id) as last_step
    from device_time_v1
    where core is distinct from 'sparsecore'
),

steps as (
    select
        run_id, request, step,
        min(phase) as phase,
        max(phase) as last_phase,
        max(case when inferred then 1 else 0 end) as inferred,
        count(*) as devices,
        max(busy_ps) as max_busy_ps,
        avg(busy_ps) as mean_busy_ps,
        min(case when busy_ps = max_busy_ps then device_id end) as busiest_device_id,
        max(compute_ps) as max_compute_ps,
        avg(compute_ps) as mean_compute_ps,
        min(case when compute_ps = max_compute_ps then device_id end) as most_compute_device_id
    from ranked
    where step is not null or last_step is null
    group by run_id, request, step
)

select
    -- run
    run_id,
    -- request; NULL without a marker
    request,
    -- forward pass within the request; in a run without markers the launch instance
    step,
    -- phase of the step's ops; mixed where they fall under several
    case when phase = last_phase then phase when phase < last_phase then 'mixed' end as phase,
    -- devices that ran an op of the step
    cast(devices as bigint) as devices,
    -- the identity of one of them was deduced: its times are not an accelerator's
    inferred = 1 as inferred,
    -- busy time of the busiest device
    max_busy_ps,
    -- mean busy time over devices
    mean_busy_ps,
    -- the busiest device, the lowest of equal ones
    busiest_device_id,
    -- busiest device / mean - 1; 0 = balanced
    max_busy_ps / nullif(mean_busy_ps, 0) - 1 as imbalance_ratio,
    -- compute time of the device that computes longest
    max_compute_ps,
    -- mean compute time over devices
    mean_compute_ps,
    -- the device that computes longest, the lowest of equal ones
    most_compute_device_id,
    -- longest compute time / mean - 1
    max_compute_ps / nullif(mean_compute_ps, 0) - 1 as compute_imbalance_ratio
from steps
