-- one row per collective instruction and replica group
-- The ICI links that a group's transfer can use, and the load of the busiest one where the route is
-- known. A permute and a send go along their pairs; of a group of two every algorithm is the same
-- exchange of a pair. Bytes go along x, then y, then z, each the shorter way; an exact half of an
-- axis with links around it splits them both ways.
with places as (
    select
        run_id, device_id, x_size, y_size, z_size, x_wraps, y_wraps, z_wraps, x, y, z,
        x + x_size * (y + y_size * z) as chip,
        case when x_wraps or x > 0 then 1 else 0 end
        + case when x_wraps or x < x_size - 1 then 1 else 0 end
        + case when y_wraps or y > 0 then 1 else 0 end
        + case when y_wraps or y < y_size - 1 then 1 else 0 end
        + case when z_wraps or z > 0 then 1 else 0 end
        + case when z_wraps or z < z_size - 1 then 1 else 0 end as links
    from _chip_place_v1
    where topology_problem is null
),

groups as (
    select
        g.run_id, g.world, g.program_id, g.op, g.group_index,
        count(*) as members,
        min(g.device_id) as least_device_id,
        max(g.device_id) as greatest_device_id,
        min(h.peak_ici_bytes_per_s) as peak_ici_bytes_per_s,
        count(p.chip) as placed,
        case when count(distinct p.chip) = count(*) then sum(p.links) end as ici_link_count
    from replica_groups as g
    left join hardware_peaks_v1 as h on h.run_id = g.run_id and h.device_id = g.device_id
    left join places as p on p.run_id = g.run_id and p.device_id = g.device_id
    group by g.run_id, g.world, g.program_id, g.op, g.group_index
),

-- Pairs of devices that an instruction sends between, by the group that they are of.
pairs as (
    select
        p.run_id, p.world, p.program_id, p.op, g.group_index, p.source_device_id,
        p.target_device_id
    from permute_pairs as p
    inner join replica_groups as g
        on g.run_id = p.run_id and g.world = p.world and g.program_id = p.program_id
        and g.op = p.op and g.device_id = p.source_device_id
    where p.target_device_id is distinct from p.source_device_id
),

counted as (
    select run_id, world, program_id, op, group_index, count(*) as pairs
    from pairs
    group by run_id, world, program_id, op, group_index
),

known as (
    select
        g.*,
        c.pairs,
        case
            when c.run_id is not null then 'pairs'
            when g.members = 2 then 'exchange'
        end as algorithm
    from groups as g
    left join counted as c
        on c.run_id = g.run_id and c.world = g.world and c.program_id = g.program_id
        and c.op = g.op and c.group_index = g.group_index
),

-- Both ways of an exchange load their links alike: one is enough.
edges as (
    select
        run_id, world, program_id, op, group_index, source_device_id, target_device_id
    from pairs
    union all
    select
        run_id, world, program_id, op, group_index, least_device_id, greatest_device_id
    from known
    where algorithm = 'exchange'
),

three as (
    select axis from (values (1), (2), (3)) as numbers_of (axis)
),

-- An edge's way along each axis, with the other coordinates: along earlier axes they are the
-- target's by then.
axes as (
    select
        e.run_id, e.world, e.program_id, e.op, e.group_index, a.axis, s.x_size, s.y_size,
        case when a.axis = 1 then s.x_size when a.axis = 2 then s.y_size else s.z_size end as size,
        case when a.axis = 1 then s.x_wraps when a.axis = 2 then s.y_wraps else s.z_wraps end as wraps,
        case when a.axis = 1 then s.x when a.axis = 2 then s.y else s.z end as origin,
        case when a.axis = 1 then t.x when a.axis = 2 then t.y else t.z end as target,
        case when a.axis = 1 then 0 else t.x end as x,
        case when a.axis = 1 then s.y when a.axis = 2 then 0 else t.y end as y,
        case when a.axis = 3 then 0 else s.z end as z
    from edges as e
    inner join places as s on s.run_id = e.run_id and s.device_id = e.source_device_id
    inner join places as t on t.run_id = e.run_id and t.device_id = e.target_device_id
    cross join three as a
),

measured as (
    select
        *,
        (target - origin + size) % nullif(size, 0) as ahead,
        size - (target - origin + size) % nullif(size, 0) as behind
    from axes
    where target <> origin
),

ways as (
    select
        *, 1 as side, ahead as steps,
        case when wraps and ahead = behind then 0.5e0 else 1 end as share
    from measured
    where (wraps and ahead <= behind) or (not wraps and target > origin)
    union all
    select
        *, -1, behind,
        case when wraps and ahead = behind then 0.5e0 else 1 end
    from measured
    where (wraps and behind <= ahead) or (not wraps and target < origin)
),

loads as (
    select
        w.run_id, w.world, w.program_id, w.op, w.group_index,
        sum(w.share) as share
    from ways as w
    inner join _hop_v1 as h on h.steps = w.steps
    group by
        w.run_id, w.world, w.program_id, w.op, w.group_index, w.axis, w.side, w.x, w.y, w.z,
        (w.origin + w.side * h.hop + w.size) % nullif(w.size, 0)
),

busiest as (
    select run_id, world, program_id, op, group_index, max(share) as share
    from loads
    group by run_id, world, program_id, op, group_index
)

select
    -- run
    k.run_id,
    -- processes whose programs share device numbers
    k.world,
    -- compiled program
    k.program_id,
    -- name of the HLO instruction
    k.op,
    -- which group of the instruction
    k.group_index,
    -- peak bandwidth of one ICI link, one way
    k.peak_ici_bytes_per_s,
    -- links that leave the members' chips, one way each; NULL where they are not known, or two members
    -- share a chip
    cast(k.ici_link_count as bigint) as ici_link_count,
    -- pairs of different devices of a permute or send; NULL where there are none
    cast(k.pairs as bigint) as pairs,
    -- pairs or exchange; NULL where the route is not known
    k.algorithm,
    -- bytes on the busiest link, over those that one member sends; NULL where they are not known
    cast(case when k.placed = k.members then b.share end as double) as busiest_share
from known as k
left join busiest as b
    on b.run_id = k.run_id and b.world = k.world and b.program_id = k.program_id and b.op = k.op
    and b.group_index = k.group_index
