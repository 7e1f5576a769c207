-- one row per run, with a mesh or without
-- Says which mesh counts and, in words, why it cannot be used. Number of devices: those the run
-- names, SparseCores left out; where the run itself gives the order of its devices, that list.
with axes as (
    select
        run_id,
        min(mesh_source) as mesh_source,
        max(size * stride_size) as mesh_device_count
    from _mesh_axis_v1
    group by run_id
),

counted as (
    select run_id, count(*) as device_count
    from devices
    where core is distinct from 'sparsecore'
    group by run_id
),

facts as (
    select
        r.run_id,
        a.mesh_source,
        a.mesh_device_count,
        coalesce(array_length(s.mesh), array_length(r.mesh), 0) as axis_count,
        case
            when a.mesh_source = 'run' and array_length(r.mesh_device_ids) > 0
                then r.mesh_device_ids
        end as mesh_device_ids,
        coalesce(c.device_count, 0) as named_device_count
    from runs as r
    left join run_settings as s on s.run_id = r.run_id
    left join axes as a on a.run_id = r.run_id
    left join counted as c on c.run_id = r.run_id
),

sized as (
    select *, coalesce(array_length(mesh_device_ids), named_device_count) as device_count
    from facts
)

select
    -- run
    run_id,
    -- where the mesh comes from: setting or run; NULL without a mesh
    mesh_source,
    -- devices of the mesh in its order; NULL: by world and logical id, ascending. A mesh that was
    -- set takes the ascending order: the run's own list belongs to the run's own mesh.
    mesh_device_ids,
    -- product of the sizes of the mesh's axes
    mesh_device_count,
    -- devices that the mesh has to hold
    cast(device_count as bigint) as device_count,
    -- why no axis can be told; NULL where the mesh is usable
    case
        when mesh_source is null then 'no mesh is known; set one with: xlahouse set mesh'
        when axis_count > 8
            then concat('the mesh has ', cast(axis_count as varchar), ' axes; at most 8 are known')
        when mesh_device_count <> device_count
            then concat(
                'the mesh holds ', cast(mesh_device_count as varchar), ' devices, the run names ',
                cast(device_count as varchar)
            )
    end as mesh_problem
from sized
