-- one row per collective on a device, as in the table collectives
-- The rows of _wire_v1 that were traced: views of times read this one, so that a compiled program,
-- which has no times, has no row in them.
select
    -- run
    run_id,
    -- device
    device_id,
    -- launch on the device; NULL outside every launch
    launch,
    -- processes whose programs share device numbers
    world,
    -- the device is virtual, or its identity deduced
    inferred,
    -- compiled program
    program_id,
    -- name of the program
    module,
    -- name of the HLO instruction
    op,
    -- kind of the collective
    kind,
    -- mesh axes joined by +, or none, mixed or unclassified
    axis,
    -- key of the run
    run_key,
    -- key of run and axis
    axis_key,
    -- one number on every participant of one group's transfer
    instance,
    -- which of the instruction's replica groups
    group_index,
    -- members of that group, traced or not
    group_size,
    -- element type
    dtype,
    -- S, logical bytes of the instruction
    payload_bytes,
    -- the largest power of two that is not above S; 0 for no bytes, NULL where S is unknown
    size_bucket_bytes,
    -- bytes that the device sends
    wire_bytes,
    -- start
    start_ps,
    -- duration in flight
    duration_ps,
    -- a start/done pair
    is_async,
    -- duration of the done op; NULL on a synchronous collective
    wait_ps,
    -- start of the barrier directly before the op, else the op's start
    arrival_ps,
    -- phase of its marker; NULL outside every marker
    phase,
    -- request; NULL without a marker
    request,
    -- forward pass within the request
    step,
    -- layer of the model
    layer,
    -- part of the layer
    component
from _wire_v1
where is_measured
