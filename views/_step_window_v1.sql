-- one row per run, device, request and step
-- A step's window on a device: from its first op's start to its last op's end (control ops such as
-- while loops aside), cut where the device's next step starts. Ops outside every step have no row,
-- unless the device has no step at all: then all its ops are one row, step NULL. window_key is one
-- number for run, device, request and step: intervals are sorted by it in half the time that the
-- columns take, a text among them.
with numbered as (
    -- One partition on purpose: there are few runs.
    select run_id, row_number() over (partition by 1 order by run_id) as run_number
    from runs
),

spans as (
    select
        run_id, device_id, request, step,
        min(phase) as phase,
        max(phase) as last_phase,
        min(start_ps) as first_ps,
        max(start_ps + duration_ps) as last_ps
    from ops
    where category <> 'control'
    group by run_id, device_id, request, step
),

weighed as (
    select
        *,
        max(case when step is null then 0 else 1 end) over (
            partition by run_id, device_id
        ) as has_steps
    from spans
),

followed as (
    select
        *,
        lead(first_ps) over (
            partition by run_id, device_id order by first_ps, last_ps, request, step
        ) as next_ps,
        row_number() over (
            partition by run_id order by device_id, first_ps, last_ps, request, step
        ) as place
    from weighed
    where step is not null or has_steps = 0
)

select
    -- run
    f.run_id,
    -- device
    f.device_id,
    -- request; NULL without a marker
    f.request,
    -- forward pass within the request; in a run without markers the launch instance
    f.step,
    -- phase of the step's ops; mixed where they fall under several
    case
        when f.phase = f.last_phase then f.phase when f.phase < f.last_phase then 'mixed'
    end as phase,
    -- core of the device: tensorcore, sparsecore, gpu or cpu
    d.core,
    -- the device's identity was deduced: its times are not an accelerator's
    d.inferred,
    -- number of the window, by run, device and time; consecutive on a device
    cast(n.run_number * 1099511627776 + f.place as bigint) as window_key,
    -- start of the first op
    f.first_ps as start_ps,
    -- end of the last op, or the start of the device's next step where that is earlier
    case when f.next_ps < f.last_ps then f.next_ps else f.last_ps end as end_ps
from followed as f
inner join numbered as n on n.run_id = f.run_id
left join devices as d on d.run_id = f.run_id and d.device_id = f.device_id
