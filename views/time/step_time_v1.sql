-- one row per run, request and step
-- How long a step takes on its devices, SparseCores left out: the windows of device_time_v1, and
-- the time to the start of the next step of the same request. A step starts with its first op on
-- any device. Devices without an op of the step in the trace do not count. Ops outside every step
-- have no row, unless the run has no step at all: then they are one row, step NULL.
with windows as (
    select
        run_id, device_id, request, step, phase, inferred, start_ps, end_ps,
        end_ps - start_ps as window_ps
    from _step_window_v1
    where core is distinct from 'sparsecore'
),

longest as (
    select
        *,
        max(window_ps) over (partition by run_id, request, step) as longest_window_ps,
        max(step) over (partition by run_id) as last_step
    from windows
),

steps as (
    select
        run_id, request, step,
        min(phase) as phase,
        max(phase) as last_phase,
        max(case when inferred then 1 else 0 end) as inferred,
        count(*) as devices,
        min(start_ps) as start_ps,
        max(end_ps) as end_ps,
        max(window_ps) as longest_window_ps,
        min(case when window_ps = longest_window_ps then device_id end) as longest_device_id,
        avg(window_ps) as mean_window_ps
    from longest
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
    -- start of the first op over all devices
    start_ps,
    -- start of the first op to the end of the last one, over all devices
    cast(end_ps - start_ps as bigint) as span_ps,
    -- longest window of a device
    cast(longest_window_ps as bigint) as longest_window_ps,
    -- the device with that window, the lowest of equal ones
    longest_device_id,
    -- mean window over devices
    mean_window_ps,
    -- from the step's start to that of the request's next step; NULL on the last
    cast(
        case
            when step is not null then lead(start_ps) over (
                partition by run_id, request order by start_ps, step
            ) - start_ps
        end as bigint
    ) as start_to_start_ps
from steps
