-- one row per run and instance of a collective
-- Bandwidths of each instance, the least time that its bytes need on the ICI links, and its share of
-- the busiest link, as in collective_bandwidth.
with sized as (
    select
        i.*,
        c.peak_ici_bytes_per_s, c.ici_link_count, c.algorithm, c.busiest_share,
        -- what one member sends; a permute's receivers, and a broadcast's last member, send nothing
        case
            when i.kind = 'collective-broadcast' and i.group_size > 1
                then cast(i.payload_bytes as double)
            else i.wire_bytes
        end as sent_bytes,
        case
            when i.kind in ('collective-permute', 'send-recv') then c.pairs
            when i.kind = 'collective-broadcast' then i.group_size - 1
            else i.group_size
        end as senders
    from _instance_v1 as i
    left join _group_link_v2 as c
        on c.run_id = i.run_id and c.world = i.world and c.program_id = i.program_id
        and c.op = i.op and c.group_index = i.group_index
),

timed as (
    select
        *,
        nullif(sent_bytes, 0) * senders / nullif(ici_link_count * peak_ici_bytes_per_s, 0) * 1e12
            as ici_ps,
        nullif(sent_bytes, 0) * busiest_share / nullif(peak_ici_bytes_per_s, 0) * 1e12 as link_ps
    from sized
)

select
    -- run
    run_id,
    -- number of the instance within the run
    instance,
    -- mesh axes joined by +, or none, mixed or unclassified
    axis,
    -- kind of the collective
    kind,
    -- the largest power of two that is not above S; 0 for no bytes, NULL where S is unknown
    size_bucket_bytes,
    -- members of the group, traced or not
    group_size,
    -- members whose part was traced
    participants_seen,
    -- the transfer ended before any done op waited for it: transfer is an upper bound
    is_bound,
    -- S / transfer; NULL where no seen participant sends anything
    case when wire_bytes is distinct from 0 then algbw_bytes_per_s end as algbw_bytes_per_s,
    -- largest participant's wire bytes / transfer; NULL where no seen participant sends anything
    nullif(busbw_bytes_per_s, 0) as busbw_bytes_per_s,
    -- links that leave the members' chips
    ici_link_count,
    -- pairs, exchange or ring; NULL where the route is not known
    algorithm,
    -- wire bytes of all members / peak of the links that leave their chips, together
    cast(ici_ps as double) as ici_ps,
    -- the transfer is more than 2 % shorter than ici_ps
    cast(transfer_ps as double) * 1.02e0 < ici_ps as is_impossible,
    -- busiest link's bytes / peak / transfer; NULL above 1.02, which no link reaches
    case
        when link_ps <= 1.02e0 * cast(transfer_ps as double)
            then link_ps / nullif(cast(transfer_ps as double), 0)
    end as utilization_ratio
from timed
