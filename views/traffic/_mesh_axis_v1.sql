-- one row per run and axis of its mesh
-- A mesh that the user set wins over the run's own. A run without a mesh has no rows.
-- _mesh_state_v1 states why a mesh cannot be used.
with chosen as (
    select
        r.run_id,
        case when s.mesh is null then 'run' else 'setting' end as mesh_source,
        coalesce(s.mesh, r.mesh) as mesh
    from runs as r
    left join run_settings as s on s.run_id = r.run_id
),

placed as (
    select run_id, mesh_source, mesh, unnest(range(array_length(mesh))) as axis_index
    from chosen
),

axes as (
    select
        run_id,
        mesh_source,
        axis_index,
        mesh[cast(axis_index + 1 as bigint)].axis as axis,
        mesh[cast(axis_index + 1 as bigint)].size as size
    from placed
),

strided as (
    select
        *,
        coalesce(sum(ln(case when size >= 1 then size end)) over (
            partition by run_id order by axis_index desc
            rows between unbounded preceding and 1 preceding
        ), 0) as stride_exponent
    from axes
)

select
    -- run
    run_id,
    -- source of the mesh: setting or run
    mesh_source,
    -- number of the axis, 0 is the major one
    cast(axis_index as bigint) as axis_index,
    -- name of the axis
    axis,
    -- devices along the axis
    cast(size as bigint) as size,
    -- devices between neighbours on this axis: the product of the sizes of all minor axes; NULL for
    -- more than any run has (e^28; below 2^40 a product of sizes survives ln, exp and round exactly)
    case when stride_exponent < 28 then cast(round(exp(stride_exponent)) as bigint) end
        as stride_size
from strided
