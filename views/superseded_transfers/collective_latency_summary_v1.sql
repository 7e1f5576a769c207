-- one row per run, device, phase, axis, kind and size of collective
-- How often and for how long collectives of a size run. A size holds the payloads from a power of
-- two up to the next. Durations are in flight: from the start of the start op to the end of the
-- done op. p50, p95 and p99 are the values of rows ceil(p n) in order. Steps are the device's steps
-- in the phase that have launches, with such a collective or without; a step lasts from its first
-- launch's start to its last launch's end.
with ranked as (
    select
        run_id, device_id, phase, axis, kind, size_bucket_bytes, duration_ps,
        row_number() over (
            partition by run_id, device_id, phase, axis, kind, size_bucket_bytes
            order by duration_ps
        ) as place,
        count(*) over (
            partition by run_id, device_id, phase, axis, kind, size_bucket_bytes
        ) as places
    from _collective_wire_v1
),

summed as (
    select
        run_id, device_id, phase, axis, kind, size_bucket_bytes,
        count(*) as count,
        max(case when place = (50 * places + 99) // 100 then duration_ps end) as p50_ps,
        max(case when place = (95 * places + 99) // 100 then duration_ps end) as p95_ps,
        max(case when place = (99 * places + 99) // 100 then duration_ps end) as p99_ps
    from ranked
    group by run_id, device_id, phase, axis, kind, size_bucket_bytes
),

steps as (
    select
        run_id, device_id, phase, request, step,
        max(start_ps + duration_ps) - min(start_ps) as length_ps
    from launches
    where step is not null
    group by run_id, device_id, phase, request, step
),

phases_of_devices as (
    select
        run_id, device_id, phase,
        count(*) as step_count,
        sum(length_ps) as length_ps
    from steps
    group by run_id, device_id, phase
)

select
    -- run
    s.run_id,
    -- device
    s.device_id,
    -- phase; NULL outside every marker
    s.phase,
    -- mesh axes joined by +, or none, mixed or unclassified
    s.axis,
    -- kind of the collective
    s.kind,
    -- the largest power of two that is not above S; 0 for no bytes, NULL where S is unknown
    s.size_bucket_bytes,
    -- collectives
    cast(s.count as bigint) as count,
    -- steps of the device in the phase; NULL where none is known
    cast(p.step_count as bigint) as step_count,
    -- collectives / steps
    cast(s.count as double) / nullif(p.step_count, 0) as collectives_per_step,
    -- collectives / time of those steps
    s.count * 1e12 / nullif(cast(p.length_ps as double), 0) as collectives_per_s,
    -- median
    s.p50_ps,
    -- 95th percentile
    s.p95_ps,
    -- 99th percentile
    s.p99_ps
from summed as s
left join phases_of_devices as p
    on p.run_id = s.run_id and p.device_id = s.device_id and p.phase is not distinct from s.phase
