-- one row per run, with a mesh or without
-- States which mesh counts and, in words, why it cannot be used. The devices of a run are those of
-- the table devices, SparseCores left out; a mesh, and the order that a run gives for its own mesh,
-- must hold exactly these.
with axes as (
    select
        run_id,
        min(mesh_source) as mesh_source,
        -- as in _mesh_axis_v1: a product that no run reaches is NULL, and never overflows
        case
            when sum(ln(case when size >= 1 then size end)) < 28
                then cast(round(exp(sum(ln(case when size >= 1 then size end)))) as bigint)
        end as mesh_device_count,
        sum(case when size >= 1 then 0 else 1 end) as empty_axes,
        count(*) - count(distinct axis) as repeated_axes
    from _mesh_axis_v1
    group by run_id
),

orders as (
    select
        r.run_id,
        case when s.mesh is null and array_length(r.mesh_device_ids) > 0 then r.mesh_device_ids end
            as mesh_device_ids
    from runs as r
    left join run_settings as s on s.run_id = r.run_id
),

counted as (
    select
        o.run_id,
        count(d.device_id) as device_count,
        sum(case when array_position(o.mesh_device_ids, d.device_id) > 0 then 1 else 0 end)
            as placed_count
    from orders as o
    left join devices as d on d.run_id = o.run_id and d.core is distinct from 'sparsecore'
    group by o.run_id
),

facts as (
    select
        o.run_id, o.mesh_device_ids, c.device_count, c.placed_count,
        a.mesh_source, a.mesh_device_count, a.empty_axes, a.repeated_axes
    from orders as o
    inner join counted as c on c.run_id = o.run_id
    left join axes as a on a.run_id = o.run_id
)

select
    -- run
    run_id,
    -- source of the mesh: setting or run; NULL without a mesh
    mesh_source,
    -- devices of the mesh in its order; NULL: by world and logical id, ascending. A mesh that was
    -- set takes the ascending order: the run's own list belongs to the run's own mesh.
    case when mesh_source is not null then mesh_device_ids end as mesh_device_ids,
    -- product of the sizes of the mesh's axes; NULL for more than any run has
    mesh_device_count,
    -- devices that the mesh must hold
    cast(device_count as bigint) as device_count,
    -- why no axis can be determined; NULL where the mesh is usable
    case
        when mesh_source is null then 'no mesh is known'
        when empty_axes > 0 then 'an axis of the mesh has no size, or one below 1'
        when repeated_axes > 0 then 'an axis of the mesh stands twice, or has no name'
        when mesh_device_count is distinct from device_count
            then concat(
                'the mesh holds ', coalesce(cast(mesh_device_count as varchar), 'far more'),
                ' devices, the run names ', cast(device_count as varchar)
            )
        when array_length(mesh_device_ids) <> device_count
            then concat(
                'the order of the mesh lists ', cast(array_length(mesh_device_ids) as varchar),
                ' devices, the run names ', cast(device_count as varchar)
            )
        when mesh_device_ids is not null and placed_count <> device_count
            then 'the order of the mesh lists a device twice, or one that the run does not name'
    end as mesh_problem
from facts
