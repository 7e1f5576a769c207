-- one row per run and device, SparseCores left out
-- Place of a device's chip among the chips that the run names, traced or not. By the coordinates,
-- where every device has them; else chip = x + X (y + Y z) gives the number, and the shape X x Y x
-- Z is the shape in which slices of that many chips come: v5e and v6e in two dimensions, with links
-- around an axis of 16; v4 and v5p in three, with links around all axes where all are multiples of
-- 4. A device's chip number is the trace's, else its own number over the devices a chip. Twisted
-- shapes cannot be recognized by the numbers, and are taken for plain ones.
with kinds as (
    select
        d.run_id, d.device_id, d.world, d.slice_index, (d.inferred or coalesce(d.core, '') = 'cpu') as inferred,
        p.generation,
        coalesce(d.chip_id, d.logical_id // nullif(p.devices_per_chip, 0)) as chip,
        case when array_length(d.coords) >= 2 then d.coords[1] end as x,
        case when array_length(d.coords) >= 2 then d.coords[2] end as y,
        case when array_length(d.coords) >= 3 then d.coords[3]
            when array_length(d.coords) = 2 then 0 end as z
    from devices as d
    left join hardware_peaks_v1 as h on h.run_id = d.run_id and h.device_id = d.device_id
    left join _chip_peaks_v1 as p on p.kind_name = lower(replace(h.device_kind, ' ', ''))
    where d.core is distinct from 'sparsecore'
),

counted as (
    select
        run_id,
        max(case when inferred then 1 else 0 end) as inferred,
        max(world) - min(world) as more_worlds,
        max(slice_index) - min(slice_index) as more_slices,
        count(*) - count(generation) as unknown_kinds,
        case when min(generation) = max(generation) then min(generation) end as generation,
        count(distinct chip) as chips,
        min(chip) as first_chip,
        max(chip) as last_chip,
        count(*) - count(chip) as unnumbered,
        count(*) - count(x) as unplaced,
        min(x) as min_x, max(x) - min(x) + 1 as x_size,
        min(y) as min_y, max(y) - min(y) + 1 as y_size,
        min(z) as min_z, max(z) - min(z) + 1 as z_size,
        count(distinct concat_ws(',', cast(x as varchar), cast(y as varchar), cast(z as varchar)))
            as places
    from kinds
    group by run_id
),

shapes as (
    select * from (
        values
        ('v5e', 1, 1, 1, 1), ('v5e', 4, 2, 2, 1), ('v5e', 8, 2, 4, 1), ('v5e', 16, 4, 4, 1),
        ('v5e', 32, 4, 8, 1), ('v5e', 64, 8, 8, 1), ('v5e', 128, 8, 16, 1), ('v5e', 256, 16, 16, 1),
        ('v6e', 1, 1, 1, 1), ('v6e', 4, 2, 2, 1), ('v6e', 8, 2, 4, 1), ('v6e', 16, 4, 4, 1),
        ('v6e', 32, 4, 8, 1), ('v6e', 64, 8, 8, 1), ('v6e', 128, 8, 16, 1), ('v6e', 256, 16, 16, 1),
        ('v4', 4, 2, 2, 1), ('v4', 8, 2, 2, 2), ('v4', 16, 2, 2, 4), ('v4', 32, 2, 4, 4),
        ('v4', 64, 4, 4, 4), ('v4', 128, 4, 4, 8), ('v4', 256, 4, 8, 8), ('v4', 512, 8, 8, 8),
        ('v5p', 4, 2, 2, 1), ('v5p', 8, 2, 2, 2), ('v5p', 16, 2, 2, 4), ('v5p', 32, 2, 4, 4),
        ('v5p', 64, 4, 4, 4), ('v5p', 128, 4, 4, 8), ('v5p', 256, 4, 8, 8), ('v5p', 512, 8, 8, 8)
    ) as slices (generation, chips, x_size, y_size, z_size)
),

shaped as (
    select
        c.run_id, c.inferred, c.more_worlds, c.more_slices, c.unknown_kinds, c.generation, c.chips, c.first_chip,
        c.last_chip, c.unnumbered, c.unplaced, c.places, c.min_x, c.min_y, c.min_z,
        c.generation in ('v5e', 'v6e') as is_flat,
        case when c.unplaced = 0 then c.x_size else s.x_size end as x_size,
        case when c.unplaced = 0 then c.y_size else s.y_size end as y_size,
        case when c.unplaced = 0 then c.z_size else s.z_size end as z_size
    from counted as c
    left join shapes as s on s.generation = c.generation and s.chips = c.chips
),

judged as (
    select
        *,
        case
            when inferred = 1 then 'virtual devices have no links'
            when unknown_kinds > 0 then 'the kind of a device is not known'
            when generation is null then 'the devices are of several kinds'
            when generation not in ('v4', 'v5e', 'v5p', 'v6e')
                then concat('the shapes of ', generation, ' slices are not known')
            when more_slices > 0 then 'the devices are of several slices'
            when unplaced = 0 and (places <> x_size * y_size * z_size)
                then 'the coordinates of the chips do not fill a box'
            when unplaced = 0 and greatest(x_size, y_size, z_size) > 32
                then 'an axis of the chips is longer than 32'
            when unplaced = 0 then null
            when more_worlds > 0 then 'several processes number their devices alike'
            when unnumbered > 0 or first_chip <> 0 or last_chip <> chips - 1
                then 'the chips are not numbered 0, 1, …'
            when x_size is null
                then concat(
                    'no slice of ', generation, ' with ', cast(chips as varchar), ' chips is known'
                )
        end as problem
    from shaped
)

select
    -- run
    k.run_id,
    -- device
    k.device_id,
    -- why the links are not known; NULL where they are known
    j.problem as topology_problem,
    -- chips along x, y and z
    cast(j.x_size as bigint) as x_size,
    -- chips along y
    cast(j.y_size as bigint) as y_size,
    -- chips along z; 1 in two dimensions
    cast(j.z_size as bigint) as z_size,
    -- slices of the generation have two dimensions
    j.is_flat,
    -- links lead around x
    case
        when j.is_flat then j.x_size = 16
        else j.x_size % 4 = 0 and j.y_size % 4 = 0 and j.z_size % 4 = 0
    end as x_wraps,
    -- links lead around y
    case
        when j.is_flat then j.y_size = 16
        else j.x_size % 4 = 0 and j.y_size % 4 = 0 and j.z_size % 4 = 0
    end as y_wraps,
    -- links lead around z
    case
        when j.is_flat then false
        else j.x_size % 4 = 0 and j.y_size % 4 = 0 and j.z_size % 4 = 0
    end as z_wraps,
    -- place of the chip along x
    cast(
        case
            when j.unplaced = 0 then k.x - j.min_x
            else k.chip % nullif(j.x_size, 0)
        end as bigint
    ) as x,
    -- place of the chip along y
    cast(
        case
            when j.unplaced = 0 then k.y - j.min_y
            else k.chip // nullif(j.x_size, 0) % nullif(j.y_size, 0)
        end as bigint
    ) as y,
    -- place of the chip along z
    cast(
        case
            when j.unplaced = 0 then k.z - j.min_z
            else k.chip // nullif(j.x_size * j.y_size, 0)
        end as bigint
    ) as z
from kinds as k
inner join judged as j on j.run_id = k.run_id
