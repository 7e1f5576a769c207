-- one row per step's window on a device
-- A stage-stacked pipeline, whose manifest has tick_microbatch, computes on empty microbatches where
-- it has none: compute of the ticks in which the device's stage holds no microbatch, where ticks are
-- marked. A pipeline of separate stages idles instead, and masks nothing: the manifest has no ticks;
-- or, without a manifest, each stage runs a program that runs on no other stage.
with windows as (
    select
        w.window_key, w.run_id, w.device_id, w.request, w.step, w.start_ps, w.end_ps,
        g.stage, g.stages, r.microbatches,
        case
            when r.manifest is null then 'unknown'
            when r.manifest like '%"tick_microbatch":[]%' then 'separate'
            when r.manifest like '%"tick_microbatch": []%' then 'separate'
            when r.manifest like '%"tick_microbatch"%' then 'stacked'
            else 'separate'
        end as told
    from _step_window_v1 as w
    inner join _device_group_v1 as g on g.run_id = w.run_id and g.device_id = w.device_id
    inner join runs as r on r.run_id = w.run_id
),

worked as (
    select
        w.window_key,
        sum(
            greatest(
                least(b.start_ps + b.duration_ps, w.end_ps) - greatest(b.start_ps, w.start_ps), 0
            )
        ) as masked_ps
    from windows as w
    inner join busy_intervals as b
        on b.run_id = w.run_id and b.device_id = w.device_id
        and b.request is not distinct from w.request and b.step is not distinct from w.step
    where b.category = 'masked'
    group by w.window_key
),

marked as (
    select w.run_id, w.request, w.step, max(k.masked_ps) as most_masked_ps
    from worked as k
    inner join windows as w on w.window_key = k.window_key
    group by w.run_id, w.request, w.step
),

reaches as (
    select
        l.run_id, l.request, l.step, l.program_id,
        count(distinct g.stage) as stages_seen,
        min(g.stage) as stage
    from launches as l
    inner join _device_group_v1 as g on g.run_id = l.run_id and g.device_id = l.device_id
    where g.stages > 1
    group by l.run_id, l.request, l.step, l.program_id
),

shapes as (
    select
        run_id, request, step,
        count(distinct case when stages_seen = 1 then stage end) as stages_on_their_own
    from reaches
    group by run_id, request, step
),

traced as (
    select run_id, request, step, count(distinct stage) as stages_traced
    from windows
    where stages > 1
    group by run_id, request, step
),

joined as (
    select
        w.window_key, w.stages, w.microbatches,
        coalesce(k.masked_ps, 0) as masked_ps,
        d.most_masked_ps,
        case
            when w.stages = 1 then 'no_pipeline'
            when w.stages is null then 'unknown'
            when w.told = 'unknown' and t.stages_traced > 1
                and s.stages_on_their_own = t.stages_traced
                then 'separate'
            else w.told
        end as judgement
    from windows as w
    left join traced as t
        on t.run_id = w.run_id and t.request is not distinct from w.request
        and t.step is not distinct from w.step
    left join shapes as s
        on s.run_id = w.run_id and s.request is not distinct from w.request
        and s.step is not distinct from w.step
    left join marked as d
        on d.run_id = w.run_id and d.request is not distinct from w.request
        and d.step is not distinct from w.step
    left join worked as k on k.window_key = w.window_key
)

select
    -- key of the window
    window_key,
    -- no_pipeline, separate (stages), stacked (stages) or unknown
    judgement as pipeline,
    -- compute time spent on empty microbatches; NULL where unknown
    cast(
        case
            when judgement in ('no_pipeline', 'separate') then 0
            when most_masked_ps is not null then masked_ps
        end as bigint
    ) as masked_ps,
    -- tick (measured), no_pipeline or separate_stages (nothing is masked), else why it is unknown:
    -- no_tick_markers or unknown_pipeline
    case
        when judgement = 'no_pipeline' then 'no_pipeline'
        when judgement = 'separate' then 'separate_stages'
        when most_masked_ps is not null then 'tick'
        when judgement = 'stacked' then 'no_tick_markers'
        else 'unknown_pipeline'
    end as masked_source,
    -- (p-1)/(m+p-1): the share of its ticks that a stage has no microbatch in; 0 without a pipeline
    case
        when stages = 1 then cast(0 as double)
        else cast(stages - 1 as double) / nullif(microbatches + stages - 1, 0)
    end as ideal_ratio
from joined
