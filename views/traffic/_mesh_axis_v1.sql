-- one row per run and axis of its mesh
-- The mesh that a user set wins over the run's own. A run without a mesh has no rows. The first 8
-- axes; `_mesh_state_v1` says what is wrong with a mesh that cannot be used.
with chosen as (
    select
        r.run_id,
        case when s.mesh is null then 'run' else 'setting' end as mesh_source,
        coalesce(s.mesh, r.mesh) as mesh
    from runs as r
    left join run_settings as s on s.run_id = r.run_id
),

numbers as (
    select n from (values (0), (1), (2), (3), (4), (5), (6), (7)) as digits (n)
),

-- The places of a mesh of each length, so that places are joined by equality.
places as (
    select a.n + b.n + 1 as axis_count, a.n
    from numbers as a
    cross join numbers as b
),

axes as (
    select
        c.run_id,
        c.mesh_source,
        n.n as axis_index,
        -- Spark fails on an index beyond the end, so each index stands behind its own test.
        case
            when n.n = 0 then c.mesh[1].axis
            when n.n = 1 then c.mesh[2].axis
            when n.n = 2 then c.mesh[3].axis
            when n.n = 3 then c.mesh[4].axis
            when n.n = 4 then c.mesh[5].axis
            when n.n = 5 then c.mesh[6].axis
            when n.n = 6 then c.mesh[7].axis
            when n.n = 7 then c.mesh[8].axis
        end as axis,
        case
            when n.n = 0 then c.mesh[1].size
            when n.n = 1 then c.mesh[2].size
            when n.n = 2 then c.mesh[3].size
            when n.n = 3 then c.mesh[4].size
            when n.n = 4 then c.mesh[5].size
            when n.n = 5 then c.mesh[6].size
            when n.n = 6 then c.mesh[7].size
            when n.n = 7 then c.mesh[8].size
        end as size
    from chosen as c
    inner join places as n
        on n.axis_count
        = case when array_length(c.mesh) > 8 then 8 else array_length(c.mesh) end
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
    -- where the mesh comes from: setting or run
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
