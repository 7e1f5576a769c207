-- one row per run, device, request and step
-- A step's window on a device, from the table device_steps. window_key is one number for run, device,
-- request and step: intervals are sorted by it in half the time that the columns take, a text among
-- them.
with numbered as (
    -- One partition on purpose: there are few runs.
    select run_id, row_number() over (partition by 1 order by run_id) as run_number
    from runs
),

placed as (
    select
        *,
        row_number() over (
            partition by run_id order by device_id, start_ps, duration_ps, request, step
        ) as place
    from device_steps
)

select
    -- run
    p.run_id,
    -- device
    p.device_id,
    -- request; NULL without a marker
    p.request,
    -- forward pass within the request; in a run without markers the launch instance
    p.step,
    -- phase of the step's ops; mixed where they fall under several
    p.phase,
    -- core of the device: tensorcore, sparsecore, gpu or cpu
    d.core,
    -- the device's identity was deduced: its times are not an accelerator's
    d.inferred,
    -- number of the window, by run, device and time; consecutive on a device
    cast(n.run_number * 1099511627776 + p.place as bigint) as window_key,
    -- start of the first op
    p.start_ps,
    -- end of the last op, or the start of the device's next step where that is earlier
    p.start_ps + p.duration_ps as end_ps
from placed as p
inner join numbered as n on n.run_id = p.run_id
left join devices as d on d.run_id = p.run_id and d.device_id = p.device_id
