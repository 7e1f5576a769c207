-- one row per run and instance of a collective
-- What the traced participants of an instance have in common, from first to last; how long the
-- transfer takes, and whether that is only a bound, as collective_bandwidth says. A device takes part
-- in an instance once, so rows are participants.
with seen as (
    select
        run_id,
        instance,
        min(run_number) as run_number,
        min(program_id) as program_id,
        min(module) as module,
        min(op) as op,
        min(world) as world,
        min(group_index) as group_index,
        min(kind) as kind,
        min(axis) as axis,
        min(phase) as phase,
        min(request) as request,
        min(step) as step,
        max(group_size) as group_size,
        count(*) as participants_seen,
        max(case when is_async then 1 else 0 end) as is_async,
        max(case when inferred then 1 else 0 end) as inferred,
        max(payload_bytes) as payload_bytes,
        max(size_bucket_bytes) as size_bucket_bytes,
        max(wire_bytes) as wire_bytes,
        min(start_ps) as first_start_ps,
        max(start_ps) as last_start_ps,
        min(start_ps + duration_ps) as first_end_ps,
        max(start_ps + duration_ps) as last_end_ps,
        min(arrival_ps) as first_arrival_ps,
        max(arrival_ps) as last_arrival_ps,
        min(duration_ps) as shortest_ps,
        max(wait_ps) as longest_wait_ps
    from _collective_wire_v1
    where instance is not null
    group by run_id, instance
),

timed as (
    select
        *,
        case when is_async = 1 then last_end_ps - last_start_ps else shortest_ps end as transfer_ps
    from seen
)

select
    -- run
    run_id,
    -- number of the instance within the run
    instance,
    -- processes whose programs share device numbers
    world,
    -- compiled program
    program_id,
    -- name of the program
    module,
    -- name of the HLO instruction
    op,
    -- which of the instruction's replica groups
    group_index,
    -- kind of the collective
    kind,
    -- mesh axes joined by +, or none, mixed or unclassified
    axis,
    -- number of the run
    run_number,
    -- phase of the marker it falls under; NULL outside every marker
    phase,
    -- request; NULL without a marker
    request,
    -- forward pass within the request
    step,
    -- members of the group, traced or not
    group_size,
    -- members whose part was traced
    cast(participants_seen as bigint) as participants_seen,
    -- a start/done pair
    is_async = 1 as is_async,
    -- the identity of a participant was deduced
    inferred = 1 as is_inferred,
    -- S
    payload_bytes,
    -- the largest power of two that is not above S; 0 for no bytes, NULL where S is unknown
    size_bucket_bytes,
    -- bytes that the largest participant sends
    wire_bytes,
    -- earliest start
    first_start_ps,
    -- earliest end
    first_end_ps,
    -- latest end
    last_end_ps,
    -- earliest arrival
    first_arrival_ps,
    -- latest arrival
    last_arrival_ps,
    -- time that the transfer takes
    transfer_ps,
    -- the transfer ended before any done op waited for it (1 us or more): transfer is an upper bound
    case
        when is_async = 0 then false
        when longest_wait_ps is not null then longest_wait_ps <= 1000000
    end as is_bound,
    -- S / transfer
    payload_bytes * 1e12 / nullif(cast(transfer_ps as double), 0) as algbw_bytes_per_s,
    -- largest participant's wire bytes / transfer
    wire_bytes * 1e12 / nullif(cast(transfer_ps as double), 0) as busbw_bytes_per_s
from timed
