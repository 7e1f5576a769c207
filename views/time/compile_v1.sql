-- one row per stretch of time in which a host compiles
-- A stretch is as in _compile_v1: compiles of a host that overlap or touch. The step that waited for
-- it is that of the first launch that the host hands over once it ends (a launch without a link to
-- its enqueue counts from its start); of launches handed over at one time, the first instance's.
-- After warm-up it is a recompile: once the first marker of a measured step (prefill, decode or
-- mixed) is open, except in warm-up phases; in a run without such markers, once the first step
-- that the host annotates is over, as programs compile in it.
with annotated as (
    select run_id, min(start_ps + duration_ps) as first_end_ps
    from phases
    where source = 'marker' and phase = 'step'
    group by run_id
),

handed as (
    select
        l.run_id, d.host, l.launch_instance,
        min(l.phase) as phase, min(l.request) as request, min(l.step) as step,
        min(coalesce(l.enqueue_ps, l.start_ps)) as handed_ps
    from launches as l
    inner join devices as d on d.run_id = l.run_id and d.device_id = l.device_id
    group by l.run_id, d.host, l.launch_instance
),

placed as (
    select
        *,
        row_number() over (
            partition by run_id, host, handed_ps order by launch_instance
        ) as place
    from handed
),

timeline as (
    select run_id, host, handed_ps as at_ps, handed_ps, null as start_ps
    from placed
    union all
    select run_id, host, end_ps, null, start_ps
    from _compile_v1
),

-- Latest first; at one time launches stand before the compile that ends then.
followed as (
    select
        run_id, host, start_ps,
        min(handed_ps) over (
            partition by run_id, host
            order by at_ps desc, case when start_ps is null then 0 else 1 end
            rows between unbounded preceding and current row
        ) as next_handed_ps
    from timeline
)

select
    -- run
    c.run_id,
    -- host; NULL where it is not known
    c.host,
    -- start
    c.start_ps,
    -- from its start to its end
    c.end_ps - c.start_ps as compile_ps,
    -- phase of the step that waited; NULL where nothing is launched afterwards
    p.phase,
    -- request of that step; NULL without markers of requests
    p.request,
    -- number of that step
    p.step,
    -- launch instance that waited
    p.launch_instance,
    -- it starts after warm-up; NULL in a run whose hosts mark no step
    coalesce(c.is_recompile, c.start_ps >= a.first_end_ps) as is_recompile
from _compile_v1 as c
inner join followed as f
    on f.run_id = c.run_id and f.host is not distinct from c.host and f.start_ps = c.start_ps
left join placed as p
    on p.run_id = f.run_id and p.host is not distinct from f.host
    and p.handed_ps = f.next_handed_ps and p.place = 1
left join annotated as a on a.run_id = c.run_id
