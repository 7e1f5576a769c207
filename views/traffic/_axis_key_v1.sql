-- one row per run and axis of a collective
-- A key for run and axis, by the scheme of _run_key_v1. Every run has none and unclassified, the
-- first two of its axes: a collective without known groups may have them.
with axes as (
    select run_id, axis
    from collective_axis_v1
    where axis <> 'none' and axis <> 'unclassified'
    group by run_id, axis
),

numbered as (
    select run_id, axis, 1 + row_number() over (partition by run_id order by axis) as axis_number
    from axes
    union all
    select run_id, 'none', 0 from _run_key_v1
    union all
    select run_id, 'unclassified', 1 from _run_key_v1
)

select
    -- run
    n.run_id,
    -- mesh axes joined by +, or none, mixed or unclassified
    n.axis,
    -- key of run and axis
    cast(r.run_key + n.axis_number * r.axis_unit as bigint) as axis_key
from numbered as n
inner join _run_key_v1 as r on r.run_id = n.run_id
