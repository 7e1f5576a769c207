-- one row per complete event of the trace that `xlahouse export ccl-bench` writes, for runs on TPUs
-- What CCL-Bench's tools look at. A device's process has its launches, the ops of all its lines, and
-- what else its plane has; device_id is NULL on a host's process. Runs without a TPU have no rows.
with planes as (
    select run_id, host, plane, min(device_id) as device_id
    from devices
    where traced and core in ('tensorcore', 'sparsecore') and not coalesce(inferred, false)
    group by run_id, host, plane
),

chips as (
    select run_id, device_id
    from devices
    where traced and core in ('tensorcore', 'sparsecore') and not coalesce(inferred, false)
),

tpu_runs as (
    select run_id
    from chips
    group by run_id
),

threads as (
    select
        h.*,
        regexp_extract(
            h.thread, '^(/device:TPU:[0-9]+( SparseCore [0-9]+)?)/', 1
        ) as thread_plane
    from host_events as h
    inner join tpu_runs as t on t.run_id = h.run_id
),

told as (
    select
        o.run_id, o.device_id, coalesce(o.op, '') as name, coalesce(o.line, 'XLA Ops') as line,
        o.start_ps, o.duration_ps, o.hlo_category,
        cast(round(o.bytes_accessed) as bigint) as bytes_accessed,
        cast(round(o.model_flops) as bigint) as model_flops
    from ops as o
    inner join chips as c on c.run_id = o.run_id and c.device_id = o.device_id
    union all
    select
        l.run_id, l.device_id, coalesce(l.module, '') as name, 'XLA Modules' as line,
        l.start_ps, l.duration_ps,
        cast(null as varchar) as hlo_category,
        cast(null as bigint) as bytes_accessed,
        cast(null as bigint) as model_flops
    from launches as l
    inner join chips as c on c.run_id = l.run_id and c.device_id = l.device_id
    union all
    select
        h.run_id, p.device_id, coalesce(h.name, '') as name, h.thread as line,
        h.start_ps, h.duration_ps,
        cast(null as varchar) as hlo_category,
        cast(null as bigint) as bytes_accessed,
        cast(null as bigint) as model_flops
    from threads as h
    left join planes as p
        on p.run_id = h.run_id and p.host is not distinct from h.host
        and p.plane = h.thread_plane
)

select
    -- run
    run_id,
    -- device whose process has it; NULL on a host's
    device_id,
    -- name; of a launch without the program's fingerprint that the export adds
    name,
    -- line of the plane, or thread of the host
    line,
    -- start
    start_ps,
    -- duration; on a device it stands as device_duration_ps too
    duration_ps,
    -- category as traced
    hlo_category,
    -- bytes read and written, as the compiler estimates, in whole bytes
    bytes_accessed,
    -- FLOPs that the model asked for, in whole FLOPs
    model_flops
from told
