-- one row per run and axis of a collective
-- Numbers for run and axis: windows and groups take half the time where no text is among their keys.
-- none and unclassified are there in every run, as 0 and 1 more than the run's first number: a
-- collective without known groups may have them.
with axes as (
    select run_id, axis
    from collective_axis_v1
    where axis <> 'none' and axis <> 'unclassified'
    group by run_id, axis
),

ordered as (
    select run_id, axis, 1 + row_number() over (partition by run_id order by axis) as axis_number
    from axes
    union all
    select run_id, 'none', 0 from _run_number_v1
    union all
    select run_id, 'unclassified', 1 from _run_number_v1
)

select
    -- run
    o.run_id,
    -- mesh axes joined by +, or none, mixed or unclassified
    o.axis,
    -- number of the axis, in all runs
    cast(n.run_number * 1048576 + o.axis_number as bigint) as axis_key
from ordered as o
inner join _run_number_v1 as n on n.run_id = o.run_id
