-- one row per collective on a device
-- Time from the previous transfers on its axis to the start of a collective on its device: gap =
-- start - latest end so far, in the order of (start, end, op); below zero they overlap. Ties are in
-- the order of program, instance, request, step, launch and phase. Axes none (the collective moves
-- nothing between devices), mixed and unclassified are axes of their own.
select
    -- run
    run_id,
    -- device
    device_id,
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
    gap_ps,
    -- the transfer before ran in another launch; NULL on the first, and outside every launch
    crosses_launch
from _interval_v1
