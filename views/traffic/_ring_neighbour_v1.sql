-- one row per collective instruction, member of a replica group, ring that it is on and direction
-- The rings of larger groups as the TPU's compiler builds them, where it states two directions
-- (collective_strategy) and the order of the members is known. UniDirection1DRingStrategy: around an
-- axis with links around; on v5e and v6e, along a line the even places upwards and the odd ones back
-- (0 2 4 … 5 3 1), and around the edge of a box two chips wide, which has no other cycle of
-- neighbours. libtpu's log of its compilations shows these orders; the program does not state them.
-- UniDirectionNDRingStrategy: along each axis by itself, where its links lead around or it has two
-- chips. Each direction carries half of what a member sends on a ring, and the rings of all axes
-- alike. No other order is known: not of larger boxes, of lines on v4 and v5p, or of one direction.
with ringed as (
    select
        l.run_id, l.world, l.program_id, l.op, l.group_index,
        i.collective_strategy = 'UniDirectionNDRingStrategy' as by_axis
    from _group_link_v2 as l
    inner join instructions as i
        on i.run_id = l.run_id and i.world = l.world and i.program_id = l.program_id
        and i.op = l.op
    where l.algorithm = 'ring' and i.collective_colors > 1
        -- two colours whose order of axes is not stated
        and not (coalesce(i.collective_detail, '') like '%{0 0}%')
),

members as (
    select
        r.run_id, r.world, r.program_id, r.op, r.group_index, r.by_axis, g.device_id,
        p.is_flat, p.x_size, p.y_size, p.z_size, p.x_wraps, p.y_wraps, p.z_wraps, p.x, p.y, p.z
    from ringed as r
    inner join replica_groups as g
        on g.run_id = r.run_id and g.world = r.world and g.program_id = r.program_id
        and g.op = r.op and g.group_index = r.group_index
    inner join _chip_place_v1 as p on p.run_id = g.run_id and p.device_id = g.device_id
),

boxes as (
    select
        run_id, world, program_id, op, group_index,
        count(*) as members,
        min(x) as least_x,
        min(y) as least_y,
        min(z) as least_z,
        max(x) - min(x) + 1 as x_length,
        max(y) - min(y) + 1 as y_length,
        max(z) - min(z) + 1 as z_length,
        -- axes longer than a chip
        least(max(x) - min(x), 1) + least(max(y) - min(y), 1) + least(max(z) - min(z), 1) as axes,
        -- of these, the ones with links around
        case when bool_and(x_wraps) and max(x) - min(x) + 1 = max(x_size) then 1 else 0 end
        + case when bool_and(y_wraps) and max(y) - min(y) + 1 = max(y_size) then 1 else 0 end
        + case when bool_and(z_wraps) and max(z) - min(z) + 1 = max(z_size) then 1 else 0 end
            as closed_axes
    from members
    group by run_id, world, program_id, op, group_index
),

-- Places in the box, and which rule orders them.
placed as (
    select
        m.run_id, m.world, m.program_id, m.op, m.group_index, m.device_id,
        b.members, b.axes, b.x_length, b.y_length, b.z_length,
        m.x - b.least_x as x, m.y - b.least_y as y, m.z - b.least_z as z,
        case
            when m.by_axis and b.axes = b.closed_axes then 'by axis'
            when m.by_axis and greatest(b.x_length, b.y_length, b.z_length) = 2 then 'by axis'
            when not m.by_axis and b.axes = 1 and b.closed_axes = 1 then 'around'
            when not m.by_axis and m.is_flat and b.axes = 1 then 'line'
            when not m.by_axis and m.is_flat and b.closed_axes = 0
                and least(b.x_length, b.y_length) = 2
                then 'edge'
        end as form,
        case
            when b.axes = 1 then m.x - b.least_x + m.y - b.least_y + m.z - b.least_z
            when b.x_length = 2 then m.y - b.least_y
            else m.x - b.least_x
        end as along,
        case when b.x_length = 2 then m.x - b.least_x else m.y - b.least_y end as across
    from members as m
    inner join boxes as b
        on b.run_id = m.run_id and b.world = m.world and b.program_id = m.program_id
        and b.op = m.op and b.group_index = m.group_index
),

-- Of a ring: the axis that it is along, its place beside that axis, its length; 0 and 0 of one ring.
rings as (
    select
        run_id, world, program_id, op, group_index, device_id, 0 as axis, 0 as beside,
        case
            when form = 'line' and along % 2 = 1 then members - (along + 1) // 2
            when form = 'line' then along // 2
            when form = 'edge' and across = 1 then members - 1 - along
            else along
        end as position,
        members as length, 1 as axes
    from placed
    where form in ('around', 'line', 'edge')
    union all
    select
        run_id, world, program_id, op, group_index, device_id, 1, y * z_length + z, x, x_length, axes
    from placed
    where form = 'by axis' and x_length > 1
    union all
    select
        run_id, world, program_id, op, group_index, device_id, 2, x * z_length + z, y, y_length, axes
    from placed
    where form = 'by axis' and y_length > 1
    union all
    select
        run_id, world, program_id, op, group_index, device_id, 3, x * y_length + y, z, z_length, axes
    from placed
    where form = 'by axis' and z_length > 1
),

sides as (
    select side from (values (1), (-1)) as two (side)
)

select
    -- run
    a.run_id,
    -- processes whose programs share device numbers
    a.world,
    -- compiled program
    a.program_id,
    -- name of the HLO instruction
    a.op,
    -- which group of the instruction
    a.group_index,
    -- member
    a.device_id,
    -- the next member on the ring in this direction
    b.device_id as neighbour_device_id,
    -- of what the member sends, the part that goes to this neighbour; they add up to 1
    0.5e0 / nullif(a.axes, 0) as share
from rings as a
cross join sides as s
inner join rings as b
    on b.run_id = a.run_id and b.world = a.world and b.program_id = a.program_id
    and b.op = a.op and b.group_index = a.group_index
    and b.axis = a.axis and b.beside = a.beside
    and b.position = (a.position + s.side + a.length) % nullif(a.length, 0)
