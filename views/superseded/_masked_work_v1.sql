-- one row per step's window on a device
-- A stage-stacked pipeline computes on empty microbatches where it has none. With tick markers the
-- time is measured: compute of the ticks in which the device's stage holds no microbatch. Without,
-- it is the ideal share (p-1)/(m+p-1) of the compute time, for steps in which a program runs on all
-- p stages. A step in which each stage has a program that runs on no other stage masks nothing.
-- NULL where coordinates, microbatches or stages are not known.
with windows as (
    select
        w.window_key, w.run_id, w.device_id, w.request, w.step, w.start_ps, w.end_ps,
        g.stage, g.stages, r.microbatches
    from _step_window_v1 as w
    inner join _device_group_v1 as g on g.run_id = w.run_id and g.device_id = w.device_id
    inner join runs as r on r.run_id = w.run_id
),

worked as (
    select
        w.window_key,
        sum(
            case when b.category = 'masked' then 1 else 0 end
            * greatest(
                least(b.start_ps + b.duration_ps, w.end_ps) - greatest(b.start_ps, w.start_ps), 0
            )
        ) as masked_ps,
        sum(
            case when b.category = 'compute' then 1 else 0 end
            * greatest(
                least(b.start_ps + b.duration_ps, w.end_ps) - greatest(b.start_ps, w.start_ps), 0
            )
        ) as compute_ps
    from windows as w
    inner join busy_intervals as b
        on b.run_id = w.run_id and b.device_id = w.device_id
        and b.request is not distinct from w.request and b.step is not distinct from w.step
    where w.stages > 1 and b.category in ('masked', 'compute')
    group by w.window_key
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
        max(stages_seen) as widest,
        count(distinct case when stages_seen = 1 then stage end) as stages_on_their_own
    from reaches
    group by run_id, request, step
),

traced as (
    select run_id, request, step, count(distinct stage) as stages_traced
    from windows
    group by run_id, request, step
),

joined as (
    select
        w.window_key, w.stages, w.microbatches, s.widest, s.stages_on_their_own, t.stages_traced,
        coalesce(k.masked_ps, 0) as masked_ps,
        coalesce(k.compute_ps, 0) as compute_ps,
        max(k.masked_ps) over (partition by w.run_id, w.request, w.step) as most_masked_ps
    from windows as w
    left join traced as t
        on t.run_id = w.run_id and t.request is not distinct from w.request
        and t.step is not distinct from w.step
    left join shapes as s
        on s.run_id = w.run_id and s.request is not distinct from w.request
        and s.step is not distinct from w.step
    left join worked as k on k.window_key = w.window_key
),

judged as (
    select
        *,
        case
            when stages = 1 then 'none'
            when most_masked_ps > 0 then 'tick'
            when stages_traced > 1 and stages_on_their_own = stages_traced then 'none'
            when widest = stages and microbatches is not null then 'ideal'
        end as judgement
    from joined
)

select
    -- key of the window
    window_key,
    -- compute time spent on empty microbatches; NULL where unknown
    cast(
        case
            when judgement = 'none' then 0
            when judgement = 'tick' then masked_ps
            when judgement = 'ideal'
                then round(
                    cast(compute_ps as double) * (stages - 1) / nullif(microbatches + stages - 1, 0)
                )
        end as bigint
    ) as masked_ps,
    -- tick (measured) or ideal (computed); NULL where nothing is masked or it is unknown
    case when judgement in ('tick', 'ideal') then judgement end as masked_source,
    -- (p-1)/(m+p-1): the share of its ticks that a stage has no microbatch in; 0 without a pipeline
    case
        when stages = 1 then cast(0 as double)
        else cast(stages - 1 as double) / nullif(microbatches + stages - 1, 0)
    end as ideal_ratio
from judged
