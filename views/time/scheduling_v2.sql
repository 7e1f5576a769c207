-- one row per run and phase
-- Overheads of launches (launch_overhead_v1), the time that hosts are blocked, and compiles.
-- A median of an even number lies half way between the two middle values, rounded down; other
-- percentiles are the values of rows ceil(p n) in order. Blocked, of a step on a host: from its last
-- enqueue to the end of its marker or of its last launch, whichever is earlier: all work is
-- handed over, and the host stays in the step while devices work. Steps without a marker, or with a
-- launch that is linked to no enqueue, do not count. A compile is a stretch of time in which a host
-- compiles, after warm-up a recompile (_compile_v1). Compiles are NULL where the trace holds
-- nothing of a host, recompiles in a run without markers of measured steps.
with measures as (
    select
        l.run_id, l.phase, m.measure,
        case
            when m.measure = 'queue' then l.queue_ps
            when m.measure = 'dispatch' then l.dispatch_ps
            else l.launch_gap_ps
        end as value_ps
    from launch_overhead_v1 as l
    cross join (values ('queue'), ('dispatch'), ('gap')) as m (measure)
),

placed as (
    select
        *,
        row_number() over (
            partition by run_id, phase, measure order by value_ps nulls last
        ) as place,
        count(value_ps) over (partition by run_id, phase, measure) as places
    from measures
),

measured as (
    select
        run_id, phase, measure,
        avg(value_ps) as mean_ps,
        max(case when place = (places + 1) // 2 then value_ps end) as lower_ps,
        max(case when place = places // 2 + 1 then value_ps end) as upper_ps,
        max(case when place = (95 * places + 99) // 100 then value_ps end) as p95_ps
    from placed
    group by run_id, phase, measure
),

percentiles as (
    select
        run_id, phase,
        max(case when measure = 'queue' then mean_ps end) as mean_queue_ps,
        max(case when measure = 'queue' then lower_ps + (upper_ps - lower_ps) // 2 end)
            as p50_queue_ps,
        max(case when measure = 'queue' then p95_ps end) as p95_queue_ps,
        max(case when measure = 'dispatch' then mean_ps end) as mean_dispatch_ps,
        max(case when measure = 'dispatch' then lower_ps + (upper_ps - lower_ps) // 2 end)
            as p50_dispatch_ps,
        max(case when measure = 'dispatch' then p95_ps end) as p95_dispatch_ps,
        max(case when measure = 'gap' then mean_ps end) as mean_launch_gap_ps,
        max(case when measure = 'gap' then lower_ps + (upper_ps - lower_ps) // 2 end)
            as p50_launch_gap_ps,
        max(case when measure = 'gap' then p95_ps end) as p95_launch_gap_ps
    from measured
    group by run_id, phase
),

counted as (
    select
        run_id, phase,
        count(*) as launches,
        count(enqueue_ps) as linked_launches,
        sum(case when starts_before_enqueue then 1 else 0 end) as early_launches
    from launch_overhead_v1
    group by run_id, phase
),

markers as (
    select
        run_id, host, phase, request, step, start_ps,
        start_ps + duration_ps as end_ps
    from phases
    where source = 'marker' and phase in ('prefill', 'decode', 'mixed', 'warmup')
),

marked_steps as (
    select run_id, host, phase, request, step, max(end_ps) as end_ps
    from markers
    group by run_id, host, phase, request, step
),

launched_steps as (
    select
        l.run_id, d.host, l.phase, l.request, l.step,
        case when count(l.enqueue_ps) = count(*) then max(l.enqueue_ps) end as enqueue_ps,
        max(l.start_ps + l.duration_ps) as end_ps
    from launches as l
    inner join devices as d on d.run_id = l.run_id and d.device_id = l.device_id
    group by l.run_id, d.host, l.phase, l.request, l.step
),

blocked as (
    select
        m.run_id, m.phase,
        avg(greatest(least(m.end_ps, l.end_ps) - l.enqueue_ps, 0)) as mean_host_blocked_ps
    from marked_steps as m
    inner join launched_steps as l
        on l.run_id = m.run_id and l.host is not distinct from m.host and l.phase = m.phase
        and l.request is not distinct from m.request and l.step is not distinct from m.step
    where l.enqueue_ps is not null
    group by m.run_id, m.phase
),

compiles as (
    select
        run_id, phase,
        count(*) as compiles,
        sum(end_ps - start_ps) as compile_ps,
        sum(case when is_recompile then 1 else 0 end) as recompiles
    from _compile_v1
    group by run_id, phase
),

-- What the trace holds of a run's hosts.
told as (
    select run_id, 0 as marked from host_events
    union all
    select run_id, case when phase <> 'warmup' then 1 else 0 end from markers
    union all
    select run_id, 0 from compiles
),

hosts as (
    select run_id, max(marked) as marked
    from told
    group by run_id
),

keys as (
    select run_id, phase from counted
    union
    select run_id, phase from markers
    union
    select run_id, phase from compiles
)

select
    -- run
    k.run_id,
    -- prefill, decode, mixed, warmup, compile or step; NULL outside every marker
    k.phase,
    -- launches over all devices
    cast(coalesce(c.launches, 0) as bigint) as launches,
    -- of these, launches linked to their enqueue on a host
    cast(coalesce(c.linked_launches, 0) as bigint) as linked_launches,
    -- of these, launches that seem to start before their enqueue: queue and dispatch are not known
    cast(coalesce(c.early_launches, 0) as bigint) as early_launches,
    -- from enqueue to start, mean
    p.mean_queue_ps,
    -- from enqueue to start, median
    p.p50_queue_ps,
    -- from enqueue to start, 95th percentile
    p.p95_queue_ps,
    -- from enqueue to start while the device is free, mean
    p.mean_dispatch_ps,
    -- from enqueue to start while the device is free, median
    p.p50_dispatch_ps,
    -- from enqueue to start while the device is free, 95th percentile
    p.p95_dispatch_ps,
    -- from the end of the launches before to the start, mean; negative = overlap
    p.mean_launch_gap_ps,
    -- from the end of the launches before to the start, median
    p.p50_launch_gap_ps,
    -- from the end of the launches before to the start, 95th percentile
    p.p95_launch_gap_ps,
    -- time that a host is blocked in a step, mean over hosts and steps
    b.mean_host_blocked_ps,
    -- stretches of time in which a host compiles
    cast(case when h.run_id is not null then coalesce(x.compiles, 0) end as bigint) as compiles,
    -- sum of their lengths over hosts
    cast(case when h.run_id is not null then coalesce(x.compile_ps, 0) end as bigint) as compile_ps,
    -- compiles after warm-up
    cast(case when h.marked = 1 then coalesce(x.recompiles, 0) end as bigint) as recompiles
from keys as k
left join counted as c on c.run_id = k.run_id and c.phase is not distinct from k.phase
left join percentiles as p on p.run_id = k.run_id and p.phase is not distinct from k.phase
left join blocked as b on b.run_id = k.run_id and b.phase is not distinct from k.phase
left join compiles as x on x.run_id = k.run_id and x.phase is not distinct from k.phase
left join hosts as h on h.run_id = k.run_id
