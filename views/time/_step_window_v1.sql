-- one row per run, device, request and step
-- A step's window on a device, from the table device_steps. window_key is its key by the scheme of
-- _run_key_v1.
with placed as (
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
    -- the device is virtual, or its identity deduced: its times are not an accelerator's
    d.inferred or coalesce(d.core, '') = 'cpu' as inferred,
    -- key of run and window, by device and time: a device's next window is 2 more
    cast(r.run_key + 2 * p.place as bigint) as window_key,
    -- start of the first op
    p.start_ps,
    -- end of the last op, or the start of the device's next step where that is earlier
    p.start_ps + p.duration_ps as end_ps,
    -- a collective is in flight while a compute op runs
    p.overlapped_ps
from placed as p
inner join _run_key_v1 as r on r.run_id = p.run_id
left join devices as d on d.run_id = p.run_id and d.device_id = p.device_id
