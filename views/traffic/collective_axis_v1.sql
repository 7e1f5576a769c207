-- one row per collective instruction and replica group
-- The mesh axes along which the members' coordinates of a group differ, joined by + in mesh order.
-- none: a group of one, or a permute that moves nothing between devices; known without a mesh.
-- unclassified: no mesh, or a member outside it. All groups of an instruction must agree, else the
-- axis is mixed; one unclassified group makes the whole instruction unclassified. A
-- collective-permute has one axis, the union over all its pairs of different devices. Its groups of
-- one (devices that send to themselves) share that axis, but are not partial: they could not reach
-- further. group_axis is the group's own; for a permute it is the instruction's. A group whose
-- members are in several slices of TPUs goes over the data center's network (DCN), others over ICI.
with permutes as (
    select
        run_id, world, program_id, op,
        sum(case when source_device_id is distinct from target_device_id then 1 else 0 end) as moves
    from permute_pairs
    group by run_id, world, program_id, op
),

pair_axes as (
    select
        p.run_id, p.world, p.program_id, p.op, s.axis_index, s.axis, s.size,
        count(*) as moves,
        max(case when s.coordinate <> t.coordinate then 1 else 0 end) as differs
    from permute_pairs as p
    inner join run_mesh_v1 as s on s.run_id = p.run_id and s.device_id = p.source_device_id
    inner join run_mesh_v1 as t
        on t.run_id = p.run_id and t.device_id = p.target_device_id and t.axis_index = s.axis_index
    where p.source_device_id <> p.target_device_id
    group by p.run_id, p.world, p.program_id, p.op, s.axis_index, s.axis, s.size
),

permute_spans as (
    select
        run_id, world, program_id, op,
        min(moves) as moves_in_mesh,
        string_agg(case when differs = 1 then axis end, '+' order by axis_index) as axis,
        cast(round(exp(sum(case when differs = 1 then ln(size) else 0 end))) as bigint) as extent
    from pair_axes
    group by run_id, world, program_id, op
),

group_sizes as (
    select
        g.run_id, g.world, g.program_id, g.op, g.group_index,
        count(*) as group_size,
        case when count(d.slice_index) = count(*) then min(d.slice_index) < max(d.slice_index) end
            as over_dcn
    from replica_groups as g
    left join devices as d on d.run_id = g.run_id and d.device_id = g.device_id
    group by g.run_id, g.world, g.program_id, g.op, g.group_index
),

group_axes as (
    select
        g.run_id, g.world, g.program_id, g.op, g.group_index, m.axis_index, m.axis, m.size,
        count(*) as members,
        case when min(m.coordinate) < max(m.coordinate) then 1 else 0 end as differs
    from replica_groups as g
    inner join run_mesh_v1 as m on m.run_id = g.run_id and m.device_id = g.device_id
    group by g.run_id, g.world, g.program_id, g.op, g.group_index, m.axis_index, m.axis, m.size
),

group_spans as (
    select
        run_id, world, program_id, op, group_index,
        min(members) as members_in_mesh,
        string_agg(case when differs = 1 then axis end, '+' order by axis_index) as axis,
        cast(round(exp(sum(case when differs = 1 then ln(size) else 0 end))) as bigint) as extent
    from group_axes
    group by run_id, world, program_id, op, group_index
),

judged as (
    select
        g.run_id, g.world, g.program_id, g.op, g.group_index, g.group_size, g.over_dcn,
        case
            when p.moves = 0 or (p.moves is null and g.group_size = 1) then 'none'
            when p.moves > 0 and p.moves = ps.moves_in_mesh
                then coalesce(ps.axis, 'unclassified')
            when p.moves is null and g.group_size = gs.members_in_mesh
                then coalesce(gs.axis, 'unclassified')
            else 'unclassified'
        end as group_axis,
        case when p.moves is null then gs.extent else ps.extent end as extent
    from group_sizes as g
    left join permutes as p
        on p.run_id = g.run_id and p.world = g.world
        and p.program_id = g.program_id and p.op = g.op
    left join permute_spans as ps
        on ps.run_id = g.run_id and ps.world = g.world
        and ps.program_id = g.program_id and ps.op = g.op
    left join group_spans as gs
        on gs.run_id = g.run_id and gs.world = g.world
        and gs.program_id = g.program_id and gs.op = g.op and gs.group_index = g.group_index
),

agreed as (
    select
        run_id, world, program_id, op,
        case
            when max(case when group_axis = 'unclassified' then 1 else 0 end) = 1
                then 'unclassified'
            when min(group_axis) = max(group_axis) then min(group_axis)
            else 'mixed'
        end as axis
    from judged
    group by run_id, world, program_id, op
)

select
    -- run
    j.run_id,
    -- processes whose programs share device numbers
    j.world,
    -- compiled program
    j.program_id,
    -- name of the HLO instruction
    j.op,
    -- which of the instruction's replica groups
    j.group_index,
    -- members of the group, traced or not
    cast(j.group_size as bigint) as group_size,
    -- axis of the instruction: mesh axes joined by +, or none, mixed or unclassified
    a.axis,
    -- axis of this group alone, for a permute the axis of all its groups: mesh axes joined by +, or
    -- none or unclassified
    j.group_axis,
    -- the group is smaller than the product of its own axes; NULL where unclassified
    case
        when j.group_axis = 'none' then false
        when j.group_axis = 'unclassified' then null
        when j.group_size = 1 then false
        else j.group_size < j.extent
    end as partial,
    -- the group's members are in several slices; NULL where the slice of one of them is not known
    j.over_dcn
from judged as j
inner join agreed as a
    on a.run_id = j.run_id and a.world = j.world
    and a.program_id = j.program_id and a.op = j.op
