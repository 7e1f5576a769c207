-- one row per run and instance of a collective
-- Duration, skew and bandwidth of each instance, over the participants that were traced: compare
-- participants_seen with group_size. transfer of a synchronous instance: the shortest duration
-- among participants (nccl-tests averages over them); of an asynchronous one: latest start to latest end. skew: latest less
-- earliest arrival among those seen; NULL with one arrival of several known, where the ends of a
-- synchronous instance lie more than 1 us apart, and across clocks of which one is not usable
-- (clock_offset_v2). payload is the largest participant's (a permute's receivers have 0).
-- ici_ps is the least time that any algorithm needs: the wire bytes of all members, seen or not, over
-- the ICI links that leave their chips; a transfer that is more than 2 % shorter proves a wrong kind
-- of chip, peak or place. utilization is the load of the busiest link, one way, under the algorithm
-- that was compiled: known for permutes, which go along their pairs, and for groups of two, of which
-- every ring is the same exchange over the shortest route. Both are NULL within one chip, where
-- places of chips are not known, and on devices whose identity was deduced.
with unclear as (
    -- Instances whose devices' clocks differ by more than their lateness.
    select m.run_id, m.instance
    from _meeting_v2 as m
    inner join clock_offset_v2 as o on o.run_id = m.run_id and o.clock = m.clock
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
    -- S / transfer; NULL where no seen participant sends anything
    r.algbw_bytes_per_s,
    -- largest participant's wire bytes / transfer; NULL where no seen participant sends anything
    r.busbw_bytes_per_s,
    -- ICI links that leave the members' chips, one way each; NULL where they are not known, or two
    -- members share a chip
    r.ici_link_count,
    -- wire bytes of all members / peak of these links together: a lower bound of any transfer
    r.ici_ps,
    -- the transfer is more than 2 % shorter than ici_ps; NULL where either is not known
    r.is_impossible,
    -- route that utilization is over: pairs (a permute's), exchange (a group of two); NULL where the
    -- compiled algorithm is not known
    r.algorithm,
    -- busiest link's bytes / peak of one link, one way / transfer; NULL where the algorithm is not
    -- known, and above 1.02, which no link reaches
    r.utilization_ratio
from _instance_v1 as i
left join unclear as u on u.run_id = i.run_id and u.instance = i.instance
left join _instance_rate_v1 as r on r.run_id = i.run_id and r.instance = i.instance
