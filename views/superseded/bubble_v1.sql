-- one row per run, device, request, step and cause
-- How much of a step's window a device was idle, by cause as in idle_gap (gaps under 100 ns are
-- device): device, host, imbalance, pipeline and unattributed add up to the idle of device_time.
-- between_steps is the idle time before the step, outside its window. Each step has all six rows; a
-- device whose identity was deduced has idle_ps NULL for imbalance, pipeline and unattributed,
-- since these need peers. The cost of a pipeline is in the row pipeline: idle_ps; masked_ps, the
-- time spent on empty microbatches, measured where ticks are marked, else ideal; and fill_drain_ps,
-- the time that the step was under way on other stages only, before the own stage began and after
-- it ended. Waits in barriers are not idle time: sync_wait has them by axis. SparseCores are left
-- out.
with told_runs as (
    -- A run that an older xlahouse ingested has no known idle times, and no rows.
    select run_id from busy_stretches group by run_id
),

windows as (
    select
        w.window_key, w.run_id, w.device_id, w.request, w.step, w.phase, w.start_ps, w.end_ps,
        g.inferred, g.stages,
        case when g.knows_peers then 1 else 0 end as knows_peers,
        case when g.has_launches then 1 else 0 end as has_launches,
        min(w.start_ps) over (partition by w.run_id, w.request, w.step, g.peer_group)
            as group_start_ps,
        max(w.end_ps) over (partition by w.run_id, w.request, w.step, g.peer_group)
            as group_end_ps,
        min(w.start_ps) over (partition by w.run_id, w.request, w.step, g.peer_group, g.stage)
            as stage_start_ps,
        max(w.end_ps) over (partition by w.run_id, w.request, w.step, g.peer_group, g.stage)
            as stage_end_ps
    from _step_window_v1 as w
    inner join told_runs as r on r.run_id = w.run_id
    inner join _device_group_v1 as g on g.run_id = w.run_id and g.device_id = w.device_id
),

-- A short gap has one cause; the parts of the others add up, and are distinguished as in
-- _idle_split. While a device is busy its group is, so the total grows from one of its rows to the
-- next in the idle time between: over all long gaps it is the totals at their ends less those at
-- their starts.
within as (
    select
        window_key,
        sum(case when level = 0 then idle_ps else 0 end) as idle_ps,
        sum(case when level = 0 then short_ps else 0 end) as short_ps,
        sum(case when level = 0 then open_turn * idle_so_far_ps else 0 end) as open_idle_ps,
        sum(case when level = 0 then long_turn * idle_so_far_ps else 0 end) as group_idle_ps,
        sum(case when level = 1 then long_turn * idle_so_far_ps else 0 end) as stage_idle_ps
    from _idle_total_v1
    group by window_key
),

between_steps as (
    select window_key, sum(end_ps - start_ps) as between_steps_ps
    from _between_steps_v1
    group by window_key
),

split as (
    select
        w.*,
        coalesce(i.idle_ps, 0) as within_ps,
        coalesce(b.between_steps_ps, 0) as between_steps_ps,
        coalesce(i.short_ps + w.has_launches * i.open_idle_ps, 0) as device_ps,
        coalesce(w.has_launches * (i.group_idle_ps - i.open_idle_ps), 0) as host_ps,
        coalesce(
            w.knows_peers * (
                i.idle_ps - i.short_ps
                - case when w.stages > 1 then i.stage_idle_ps else i.group_idle_ps end
            ),
            0
        ) as imbalance_ps,
        coalesce(
            w.knows_peers
            * case when w.stages > 1 then i.stage_idle_ps - i.group_idle_ps else 0 end,
            0
        ) as pipeline_ps
    from windows as w
    left join within as i on i.window_key = w.window_key
    left join between_steps as b on b.window_key = w.window_key
),

causes as (
    select cause
    from (
        values ('device'), ('host'), ('imbalance'), ('pipeline'), ('unattributed'),
        ('between_steps')
    ) as names (cause)
),

told as (
    select
        w.*, c.cause,
        case
            when c.cause = 'device' then w.device_ps
            when c.cause = 'host' then w.host_ps
            when c.cause = 'between_steps' then w.between_steps_ps
            when w.inferred then null
            when c.cause = 'imbalance' then w.imbalance_ps
            when c.cause = 'pipeline' then w.pipeline_ps
            else w.within_ps - w.device_ps - w.host_ps - w.imbalance_ps - w.pipeline_ps
        end as idle_ps,
        case when c.cause = 'pipeline' then m.masked_ps else 0 end as masked_ps,
        case when c.cause = 'pipeline' then m.masked_source end as masked_source,
        case when c.cause = 'pipeline' then m.ideal_ratio end as ideal_ratio,
        case
            when c.cause <> 'pipeline' or w.stages = 1 then 0
            when w.stages > 1 and not w.inferred
                then w.stage_start_ps - w.group_start_ps + w.group_end_ps - w.stage_end_ps
        end as fill_drain_ps
    from split as w
    cross join causes as c
    left join _masked_work_v1 as m on m.window_key = w.window_key
)

select
    -- run
    run_id,
    -- device
    device_id,
    -- request; NULL without a marker
    request,
    -- forward pass within the request; in a run without markers the launch instance
    step,
    -- phase of the step
    phase,
    -- device, host, imbalance, pipeline, unattributed or between_steps
    cause,
    -- idle time of that cause; NULL where unknown
    cast(idle_ps as bigint) as idle_ps,
    -- length of the step's window
    cast(end_ps - start_ps as bigint) as window_ps,
    -- idle / window
    cast(idle_ps as double) / nullif(cast(end_ps - start_ps as double), 0) as bubble_ratio,
    -- compute time spent on empty microbatches, in the row pipeline; 0 in the other rows
    cast(masked_ps as bigint) as masked_ps,
    -- tick (measured) or ideal (compute x the ideal ratio); NULL where nothing is masked
    masked_source,
    -- time with the step under way on other stages only, before or after the own one, in the row
    -- pipeline; 0 in the other rows, NULL where stages are not known
    cast(fill_drain_ps as bigint) as fill_drain_ps,
    -- (idle + masked + fill_drain) / (window + fill_drain), in the row pipeline
    case
        when cause = 'pipeline'
            then cast(idle_ps + masked_ps + fill_drain_ps as double)
            / nullif(cast(end_ps - start_ps + fill_drain_ps as double), 0)
    end as pipeline_ratio,
    -- the ideal: (p-1)/(m+p-1) with p stages and m microbatches; 0 without a pipeline
    ideal_ratio
from told
