-- one row per complete event of the trace that `xlahouse export ccl-bench` writes, for runs on TPUs
-- The events that CCL-Bench's tools read. A device's process has its launches, the ops of all its
-- lines, and the other events of its plane; device_id is NULL on a host's process. Runs without a
-- TPU have no rows.
with told as (
    select
        o.run_id, o.device_id, coalesce(o.op, '') as name, coalesce(o.line, 'XLA Ops') as line,
        o.start_ps, o.duration_ps, o.hlo_category,
        cast(round(o.bytes_accessed) as bigint) as bytes_accessed,
        cast(round(o.model_flops) as bigint) as model_flops
    from ops as o
    inner join _ccl_chip_v1 as c on c.run_id = o.run_id and c.device_id = o.device_id
    union all
    select
        run_id, device_id, name, line, start_ps, duration_ps,
        cast(null as varchar) as hlo_category,
        cast(null as bigint) as bytes_accessed,
        cast(null as bigint) as model_flops
    from _ccl_other_v1
)

select
    -- run
    run_id,
    -- device whose process has the event; NULL on a host's
    device_id,
    -- name; of a launch without the program's fingerprint that the export adds
    name,
    -- line of the plane, or thread of the host
    line,
    -- start
    start_ps,
    -- duration; on a device the trace has it as device_duration_ps too
    duration_ps,
    -- category as traced
    hlo_category,
    -- bytes read and written, as the compiler estimates, in whole bytes
    bytes_accessed,
    -- FLOPs that the model asked for, in whole FLOPs
    model_flops
from told
