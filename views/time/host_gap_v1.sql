-- one row per run, phase and name of host events
-- Why the host was late: what the thread that enqueued the next launch of a device did while no
-- launch was open on it, in gaps longer than 10 us (table host_gaps; time without an open request is
-- left out, and so are SparseCores and virtual devices). The phase is the next launch's. Self times
-- add up to the gaps: an instant belongs to the innermost event that is open on the thread. The
-- event's name states the activity: compile (the names of _compile_v1), waiting, transfer,
-- tracing (building a graph or lowering it), enqueue (handing programs over), python (frames of the
-- profiler's Python tracer, whose names start with $), and other; unknown where the thread has no
-- event or is not known. A worker thread that only hands launches over is mostly without an event.
with gaps as (
    select
        g.*, l.phase, lower(g.name) as lower_name,
        -- a gap has several rows; its length counts once
        row_number() over (
            partition by g.run_id, g.device_id, g.start_ps order by g.level, g.name
        ) as place
    from host_gaps as g
    inner join launches as l
        on l.run_id = g.run_id and l.device_id = g.device_id and l.launch = g.launch
),

wholes as (
    select
        run_id, phase,
        sum(duration_ps) as gap_ps,
        count(*) as all_gaps
    from gaps
    where place = 1
    group by run_id, phase
),

named as (
    select
        run_id, phase, name,
        max(case
            when name is null then 'unknown'
            when name = 'backend_compile' or name like '% backend_compile' or name = 'XlaCompile'
                or name like '%::Compile' or name like '%::Compile (%'
                or name like '%::CompileAndLoad%' then 'compile'
            when lower_name like '%wait%' or lower_name like '%block_until_ready%'
                or lower_name like '%blockhostuntil%' or lower_name like '%acquire%'
                or lower_name like '%rendezvous%' or lower_name like '%sleep%'
                or lower_name like '%synchronize%' then 'waiting'
            when lower_name like '%transfer%' or lower_name like '%h2d%' or lower_name like '%d2h%'
                or lower_name like '%memcpy%' or lower_name like '%linearize%'
                or lower_name like '%hostbuffer%' or lower_name like '%mapdmabuffer%'
                or lower_name like '%toliteral%' or lower_name like '%device_put%'
                or lower_name like '%deviceput%' then 'transfer'
            when lower_name like '%synctensors%' or lower_name like '%postorder%'
                or lower_name like '%inputoutputaliases%' or lower_name like '%trace_to_jaxpr%'
                or lower_name like '%lower_to_hlo%' or lower_name like '%lowertohlo%'
                or lower_name like '%lower_jaxpr%' then 'tracing'
            when name like '$%' then 'python'
            when lower_name like '%execut%' or lower_name like '%enqueue%'
                or lower_name like '%launch%' or lower_name like 'pjitfunction%'
                or lower_name like '%schedulework%' then 'enqueue'
            else 'other'
        end) as activity,
        count(*) as gap_count,
        sum(events) as event_count,
        sum(overlap_ps) as overlap_ps,
        sum(self_ps) as self_ps
    from gaps
    group by run_id, phase, name
)

select
    -- run
    n.run_id,
    -- phase of the next launch; NULL outside every marker
    n.phase,
    -- name of the events; NULL: no event, none within 8 levels, or the thread is not known
    n.name,
    -- compile, waiting, transfer, tracing, python, enqueue, other or unknown: the first that fits
    n.activity,
    -- gaps in which they occur, over devices
    cast(n.gap_count as bigint) as gap_count,
    -- how many there are, each once a gap
    cast(n.event_count as bigint) as event_count,
    -- time of these gaps in which one of them is open, whatever is nested in it; NULL without a name
    cast(n.overlap_ps as bigint) as overlap_ps,
    -- time of these gaps in which one of them is the innermost event
    cast(n.self_ps as bigint) as self_ps,
    -- of all time of the phase's gaps
    n.self_ps / nullif(w.gap_ps, 0) as gap_ratio,
    -- the same a gap of the phase, mean: how late it makes a launch
    n.self_ps / nullif(w.all_gaps, 0) as mean_self_ps
from named as n
inner join wholes as w on w.run_id = n.run_id and w.phase is not distinct from n.phase
