-- one row per run and instance of a collective
-- First to last start, end and arrival over the traced participants of an instance; the duration of
-- the transfer, and whether it is only a bound, as in collective_bandwidth. A device takes part in
-- an instance once, so rows are participants.
with seen as (
    select
        run_key,
        instance,
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
        case when count(payload_bytes) = count(*) then max(payload_bytes) end as payload_bytes,
        case when count(payload_bytes) = count(*) then max(size_bucket_bytes) end
            as size_bucket_bytes,
        case when count(wire_bytes) = count(*) then max(wire_bytes) end as wire_bytes,
        min(start_ps) as first_start_ps,
        max(start_ps) as last_start_ps,
        min(start_ps + duration_ps) as first_end_ps,
        max(start_ps + duration_ps) as last_end_ps,
        count(arrival_ps) as arrivals_seen,
        min(arrival_ps) as first_arrival_ps,
        max(arrival_ps) as last_arrival_ps,
        min(duration_ps) as shortest_ps,
        max(wait_ps) as longest_wait_ps
    from _collective_wire_v1
    where instance is not null
    group by run_key, instance
),

timed as (
    select
        *,
        -- No arrival is known where participants are on clocks that cannot be compared.
        case
            when is_async = 0 then shortest_ps
            when arrivals_seen > 0 or participants_seen = 1 then last_end_ps - last_start_ps
        end as transfer_ps
    from seen
)

select
    -- run
    r.run_id,
    -- number of the instance within the run
    t.instance,
    -- processes whose programs share device numbers
    t.world,
    -- compiled program
    t.program_id,
    -- name of the program
    t.module,
    -- name of the HLO instruction
    t.op,
    -- which of the instruction's replica groups
    t.group_index,
    -- kind of the collective
    t.kind,
    -- mesh axes joined by +, or none, mixed or unclassified
    t.axis,
    -- key of the run
    t.run_key,
    -- phase of its marker; NULL outside every marker
    t.phase,
    -- request; NULL without a marker
    t.request,
    -- forward pass within the request
    t.step,
    -- members of the group, traced or not
    t.group_size,
    -- members whose part was traced
    cast(t.participants_seen as bigint) as participants_seen,
    -- a start/done pair
    t.is_async = 1 as is_async,
    -- the identity of a participant was deduced
    t.inferred = 1 as is_inferred,
    -- S
    t.payload_bytes,
    -- the largest power of two that is not above S; 0 for no bytes, NULL where S is unknown
    t.size_bucket_bytes,
    -- bytes that the largest participant sends
    t.wire_bytes,
    -- earliest start
    t.first_start_ps,
    -- earliest end
    t.first_end_ps,
    -- latest end
    t.last_end_ps,
    -- members whose arrival is known
    cast(t.arrivals_seen as bigint) as arrivals_seen,
    -- earliest arrival
    t.first_arrival_ps,
    -- latest arrival
    t.last_arrival_ps,
    -- time that the transfer takes
    t.transfer_ps,
    -- the transfer ended before any done op waited for it (1 us or more): transfer is an upper bound
    case
        when t.is_async = 0 then false
        when t.longest_wait_ps is not null then t.longest_wait_ps <= 1000000
    end as is_bound,
    -- S / transfer
    t.payload_bytes * 1e12 / nullif(cast(t.transfer_ps as double), 0) as algbw_bytes_per_s,
    -- largest participant's wire bytes / transfer
    t.wire_bytes * 1e12 / nullif(cast(t.transfer_ps as double), 0) as busbw_bytes_per_s
from timed as t
inner join _run_key_v1 as r on r.run_key = t.run_key
