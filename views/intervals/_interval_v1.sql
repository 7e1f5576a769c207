-- one row per collective on a device
-- traffic_interval, with one key for run, axis and phase: summaries rank gaps over it in half the
-- time.
with ordered as (
    select
        w.*,
        p.phase_number,
        max(w.start_ps + w.duration_ps) over (
            partition by w.axis_key, w.device_id
            order by
                w.start_ps, w.duration_ps, w.op, w.program_id, w.instance, w.request, w.step,
                w.launch, p.phase_number
            rows between unbounded preceding and 1 preceding
        ) as reached_ps,
        lag(w.launch) over (
            partition by w.axis_key, w.device_id
            order by
                w.start_ps, w.duration_ps, w.op, w.program_id, w.instance, w.request, w.step,
                w.launch, p.phase_number
        ) as last_launch
    from _collective_wire_v1 as w
    inner join _phase_number_v1 as p
        on p.run_id = w.run_id and p.phase is not distinct from w.phase
)

select
    -- run
    run_id,
    -- device
    device_id,
    -- key of run, axis and phase
    axis_key + phase_number as summary_key,
    -- mesh axes joined by +, or none, mixed or unclassified
    axis,
    -- kind of the collective
    kind,
    -- compiled program
    program_id,
    -- name of the HLO instruction
    op,
    -- one number on every participant of one group's transfer
    instance,
    -- phase of the collective; NULL outside every marker
    phase,
    -- request; NULL without a marker
    request,
    -- forward pass within the request
    step,
    -- start
    start_ps,
    -- duration in flight
    duration_ps,
    -- start less the latest end so far; NULL on the first of the axis
    start_ps - reached_ps as gap_ps,
    -- the transfer before ran in another launch; NULL on the first, and outside every launch
    launch <> last_launch as crosses_launch
from ordered
