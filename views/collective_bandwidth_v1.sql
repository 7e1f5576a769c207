-- one row per run and instance of a collective
-- Only participants that were traced are seen, so participants_seen stands beside group_size.
-- transfer of a synchronous instance: the shortest duration among participants; of an asynchronous
-- one: latest start to latest end. skew: latest less earliest arrival among those seen; NULL with
-- one of several seen, where the ends of a synchronous instance lie more than 1 us apart, and across
-- hosts where the clock of one is not usable (clock_offset_v1).
-- payload is the largest participant's (a permute's receivers have 0). utilization is busbw over
-- the peak of one ICI link, one way, so a transfer over several links can exceed 1; NULL within one
-- chip, where that cannot be told, and on devices whose identity was deduced.
with seen as (
    select
        run_id,
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
        count(distinct device_id) as participants_seen,
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

-- Instances whose devices' clocks leave more open than they are late.
unclear as (
    select m.run_id, m.instance
    from _meeting_v1 as m
    inner join clock_offset_v1 as o on o.run_id = m.run_id and o.host = m.host
    where m.hosts > 1 and not o.is_usable
    group by m.run_id, m.instance
),

timed as (
    select
        s.*,
        u.run_id is not null as is_unclear,
        case when is_async = 1 then last_end_ps - last_start_ps else shortest_ps end as transfer_ps,
        case when c.on_one_chip = 0 and s.inferred = 0 then c.peak_ici_bytes_per_s end as peak
    from seen as s
    left join _group_chip_v1 as c
        on c.run_id = s.run_id and c.world = s.world and c.program_id = s.program_id
        and c.op = s.op and c.group_index = s.group_index
    left join unclear as u on u.run_id = s.run_id and u.instance = s.instance
)

select
    -- run
    run_id,
    -- number of the instance within the run
    instance,
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
    -- prefill, decode, mixed, warmup, compile or step; NULL outside every marker
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
    -- S
    payload_bytes,
    -- the largest power of two that is not above S; 0 for no bytes, NULL where S is unknown
    size_bucket_bytes,
    -- bytes that the largest participant sends
    wire_bytes,
    -- earliest start
    first_start_ps as start_ps,
    -- earliest start to latest end
    last_end_ps - first_start_ps as duration_ps,
    -- latest less earliest arrival
    case
        when participants_seen < 2 and group_size is distinct from 1 then null
        when is_async = 0 and last_end_ps - first_end_ps > 1000000 then null
        when is_unclear then null
        else last_arrival_ps - first_arrival_ps
    end as skew_ps,
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
    wire_bytes * 1e12 / nullif(cast(transfer_ps as double), 0) as busbw_bytes_per_s,
    -- busbw / peak of one link, one way
    wire_bytes * 1e12 / nullif(cast(transfer_ps as double), 0) / nullif(peak, 0)
        as utilization_ratio
from timed
