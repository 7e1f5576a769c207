-- one row per run and instance of a collective
-- Duration, skew and bandwidth of each instance, over the participants that were traced: compare
-- participants_seen with group_size. transfer of a synchronous instance: the shortest duration
-- among participants; of an asynchronous one: latest start to latest end. skew: latest less
-- earliest arrival among those seen; NULL with one arrival of several known, where the ends of a
-- synchronous instance lie more than 1 us apart, and across hosts where the clock of one is not
-- usable (clock_offset_v1). payload is the largest participant's (a permute's receivers have 0).
-- utilization is busbw over the peak of one ICI link, one way, so a transfer over several links can
-- exceed 1; NULL within one chip, where that is not known, and on virtual devices and ones whose identity was
-- deduced.
with unclear as (
    -- Instances whose devices' clocks differ by more than their lateness.
    select m.run_id, m.instance
    from _meeting_v1 as m
    inner join clock_offset_v1 as o on o.run_id = m.run_id and o.host = m.host
    where not o.is_usable
    group by m.run_id, m.instance
)

select
    -- run
    i.run_id,
    -- number of the instance within the run
    i.instance,
    -- compiled program
    i.program_id,
    -- name of the program
    i.module,
    -- name of the HLO instruction
    i.op,
    -- which of the instruction's replica groups
    i.group_index,
    -- kind of the collective
    i.kind,
    -- mesh axes joined by +, or none, mixed or unclassified
    i.axis,
    -- prefill, decode, mixed, warmup, compile or step; NULL outside every marker
    i.phase,
    -- request; NULL without a marker
    i.request,
    -- forward pass within the request
    i.step,
    -- members of the group, traced or not
    i.group_size,
    -- members whose part was traced
    i.participants_seen,
    -- a start/done pair
    i.is_async,
    -- S
    i.payload_bytes,
    -- the largest power of two that is not above S; 0 for no bytes, NULL where S is unknown
    i.size_bucket_bytes,
    -- bytes that the largest participant sends
    i.wire_bytes,
    -- earliest start
    i.first_start_ps as start_ps,
    -- earliest start to latest end
    i.last_end_ps - i.first_start_ps as duration_ps,
    -- latest less earliest arrival
    case
        when i.arrivals_seen < 2 and i.group_size is distinct from 1 then null
        when not i.is_async and i.last_end_ps - i.first_end_ps > 1000000 then null
        when u.run_id is not null then null
        else i.last_arrival_ps - i.first_arrival_ps
    end as skew_ps,
    -- time that the transfer takes
    i.transfer_ps,
    -- the transfer ended before any done op waited for it (1 us or more): transfer is an upper bound
    i.is_bound,
    -- S / transfer
    i.algbw_bytes_per_s,
    -- largest participant's wire bytes / transfer
    i.busbw_bytes_per_s,
    -- busbw / peak of one link, one way
    case
        when c.on_one_chip = 0 and not i.is_inferred
            then i.busbw_bytes_per_s / nullif(c.peak_ici_bytes_per_s, 0)
    end as utilization_ratio
from _instance_v1 as i
left join unclear as u on u.run_id = i.run_id and u.instance = i.instance
left join _group_chip_v1 as c
    on c.run_id = i.run_id and c.world = i.world and c.program_id = i.program_id
    and c.op = i.op and c.group_index = i.group_index
