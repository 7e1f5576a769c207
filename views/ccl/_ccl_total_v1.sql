-- one row per run, process, name and category of the events of _ccl_event
-- For metrics that need no single event: names and categories are few, so they are read here.
with ops_by_name as (
    select
        run_id, device_id, op, hlo_category,
        min(start_ps) as first_ps,
        max(start_ps + duration_ps) as last_ps,
        sum(duration_ps) as duration_ps,
        sum(cast(round(bytes_accessed) as bigint)) as bytes_accessed,
        sum(cast(round(model_flops) as bigint)) as model_flops
    from ops
    group by run_id, device_id, op, hlo_category
),

totals as (
    select
        o.run_id, o.device_id, coalesce(o.op, '') as name, o.hlo_category, o.first_ps, o.last_ps,
        o.duration_ps, o.bytes_accessed, o.model_flops
    from ops_by_name as o
    inner join _ccl_chip_v1 as c on c.run_id = o.run_id and c.device_id = o.device_id
    union all
    select
        run_id, device_id, name, cast(null as varchar), min(start_ps), max(start_ps + duration_ps),
        sum(duration_ps), cast(null as bigint), cast(null as bigint)
    from _ccl_other_v1
    group by run_id, device_id, name
)

select
    -- run
    run_id,
    -- device whose process has the events; NULL on a host's
    device_id,
    -- name
    name,
    -- category as traced
    hlo_category,
    -- earliest start
    first_ps,
    -- latest end
    last_ps,
    -- sum of durations
    cast(duration_ps as bigint) as duration_ps,
    -- sum of bytes read and written
    cast(bytes_accessed as bigint) as bytes_accessed,
    -- sum of the FLOPs that the model asked for
    cast(model_flops as bigint) as model_flops
from totals
