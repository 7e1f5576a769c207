-- one row per launch on a TPU and event of a host, as `xlahouse export ccl-bench` writes them
-- The events of _ccl_event that are not ops; device_id is NULL on a host's process.
with planes as (
    select run_id, host, plane, min(device_id) as device_id
    from devices
    where traced and core in ('tensorcore', 'sparsecore') and not coalesce(inferred, false)
    group by run_id, host, plane
),

tpu_runs as (
    select run_id
    from _ccl_chip_v1
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
        l.run_id, l.device_id, coalesce(l.module, '') as name, 'XLA Modules' as line,
        l.start_ps, l.duration_ps
    from launches as l
    inner join _ccl_chip_v1 as c on c.run_id = l.run_id and c.device_id = l.device_id
    union all
    select
        h.run_id, p.device_id, coalesce(h.name, '') as name, h.thread as line,
        h.start_ps, h.duration_ps
    from threads as h
    left join planes as p
        on p.run_id = h.run_id and p.host is not distinct from h.host
        and p.plane = h.thread_plane
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
    duration_ps
from told
