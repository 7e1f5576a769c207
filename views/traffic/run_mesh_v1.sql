-- one row per run, axis and device of the mesh
-- Coordinates of each device in the mesh. A mesh that the user set wins over the run's own. Devices
-- are in the order that the run gives with its own mesh, else by world and logical id, ascending. A
-- run without a mesh, or with one that does not hold exactly its devices, has no rows: run_summary
-- states why (mesh_problem).
with placed as (
    select
        d.run_id,
        d.device_id,
        case
            when s.mesh_device_ids is not null
                then nullif(array_position(s.mesh_device_ids, d.device_id), 0) - 1
            else row_number() over (
                partition by d.run_id order by d.world, d.logical_id, d.device_id
            ) - 1
        end as place
    from devices as d
    inner join _mesh_state_v1 as s on s.run_id = d.run_id
    where s.mesh_problem is null and d.core is distinct from 'sparsecore'
)

select
    -- run
    a.run_id,
    -- number of the axis, 0 is the major one
    a.axis_index,
    -- name of the axis
    a.axis,
    -- devices along the axis
    a.size,
    -- device
    p.device_id,
    -- place of the device along the axis, from 0
    cast(p.place // nullif(a.stride_size, 0) % nullif(a.size, 0) as bigint) as coordinate
from _mesh_axis_v1 as a
inner join placed as p on p.run_id = a.run_id
where p.place is not null
