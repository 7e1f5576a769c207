-- one row per run, device, request, step and cause
-- How much of a step's period a device was idle, by cause as in idle_gap (gaps under 100 ns are
-- device): device, host, imbalance, pipeline and unattributed add up to the idle of device_time.
-- between_steps is the idle time before the step within its period, ops outside every step aside.
-- All six add up to the idle time of the period, and over a device's steps to its idle wall time,
-- the time between requests aside. Each step has all six rows; a device whose identity was deduced
-- has idle_ps NULL for imbalance and pipeline, which need peers, and for unattributed if it has
-- launches: without these, its long gaps are unattributed. The cost of a pipeline is in the row
-- pipeline: idle_ps; masked_ps, the time spent on empty microbatches in a stage-stacked pipeline;
-- and, where stages are separate, fill_drain_ps, the idle time next to the window in which the step
-- is under way on peers. Waits in barriers are not idle time: sync_wait has them by axis.
-- SparseCores are left out.
with told_runs as (
    -- A run that an older xlahouse ingested has no known idle times, and no rows.
    select run_id from busy_stretches group by run_id
),

windows as (
    select
        w.window_key, w.run_id, w.device_id, w.request, w.step, w.phase, w.start_ps, w.end_ps,
        p.period_ps, p.between_requests_ps, g.inferred, g.stages,
        case when g.knows_peers then 1 else 0 end as knows_peers,
        case when g.has_launches then 1 else 0 end as has_launches
    from _step_window_v1 as w
    inner join told_runs as r on r.run_id = w.run_id
    inner join _device_group_v1 as g on g.run_id = w.run_id and g.device_id = w.device_id
    inner join _step_period_v1 as p on p.window_key = w.window_key
),

-- Long gaps that end at a row, less those that begin; and of these, those with a launch of the step open.
turns as (
    select
        run_id, device_id, request, step, start_ps,
        case when idle_ps + gap_before_ps + gap_after_ps >= 100000 then 1 else 0 end
        - case when next_gap_ps >= 100000 then 1 else 0 end as long_turn,
        case
            when in_launch and idle_ps + gap_before_ps + gap_after_ps >= 100000 then 1
            else 0
        end
        - case when next_in_launch and next_gap_ps >= 100000 then 1 else 0 end as open_turn
    from busy_stretches
),

-- A short gap has one cause; the parts of the others add up, and are distinguished as in
-- _idle_split. While a device is busy its group is, so the total grows from one of its rows to the
-- next in the idle time between: over all long gaps it is the totals at their ends less those at
-- their starts. Where one long gap follows another, the row between them adds nothing.
changes as (
    select
        cast(null as bigint) as row_key, key, end_ps as at_ps, duration_ps as all_idle_ps,
        0 as long_turn, 0 as open_turn
    from _all_idle_v1
    union all
    select l.row_key, l.key, t.start_ps, 0, t.long_turn, t.open_turn
    from turns as t
    inner join _idle_level_v1 as l
        on l.run_id = t.run_id and l.device_id = t.device_id
        and l.request is not distinct from t.request and l.step is not distinct from t.step
    where t.long_turn <> 0 or t.open_turn <> 0
),

totals as (
    select
        row_key, long_turn, open_turn,
        sum(all_idle_ps) over (partition by key order by at_ps) as idle_so_far_ps
    from changes
),

within as (
    select
        row_key - row_key % 2 as window_key,
        sum(case when row_key % 2 = 0 then open_turn * idle_so_far_ps else 0 end) as open_idle_ps,
        sum(case when row_key % 2 = 0 then long_turn * idle_so_far_ps else 0 end) as group_idle_ps,
        sum(case when row_key % 2 = 1 then long_turn * idle_so_far_ps else 0 end) as stage_idle_ps
    from totals
    where row_key is not null
    group by row_key - row_key % 2
),

between_steps as (
    select window_key, sum(end_ps - start_ps) as between_steps_ps
    from _between_steps_v2
    group by window_key
),

known as (
    select
        w.*, m.masked_ps, m.masked_source, m.ideal_ratio,
        coalesce(r.idle_ps, 0) as within_ps,
        coalesce(r.short_ps, 0) as short_ps,
        coalesce(i.open_idle_ps, 0) as open_idle_ps,
        coalesce(i.group_idle_ps, 0) as group_idle_ps,
        coalesce(case when w.stages > 1 then i.stage_idle_ps else i.group_idle_ps end, 0)
            as stage_idle_ps,
        case when w.period_ps is not null then coalesce(b.between_steps_ps, 0) end
            as between_steps_ps,
        case
            when m.pipeline in ('no_pipeline', 'stacked') then 0
            when m.pipeline = 'separate' and not w.inferred and w.period_ps is not null
                then coalesce(f.fill_drain_ps, 0)
        end as fill_drain_ps
    from windows as w
    left join _step_rest_v1 as r
        on r.run_id = w.run_id and r.device_id = w.device_id
        and r.request is not distinct from w.request and r.step is not distinct from w.step
    left join within as i on i.window_key = w.window_key
    left join between_steps as b on b.window_key = w.window_key
    left join _masked_work_v2 as m on m.window_key = w.window_key
    left join _fill_drain_v1 as f on f.window_key = w.window_key
),

split as (
    select
        *,
        short_ps + has_launches * open_idle_ps as device_ps,
        has_launches * (group_idle_ps - open_idle_ps) as host_ps,
        knows_peers * (within_ps - short_ps - stage_idle_ps) as imbalance_ps,
        knows_peers * (stage_idle_ps - group_idle_ps) as pipeline_ps
    from known
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
        s.run_id, s.device_id, s.request, s.step, s.phase, s.start_ps, s.end_ps, s.period_ps,
        s.between_requests_ps, c.cause,
        case
            when c.cause = 'device' then s.device_ps
            when c.cause = 'host' then s.host_ps
            when c.cause = 'between_steps' then s.between_steps_ps
            when s.inferred and (c.cause <> 'unattributed' or s.has_launches = 1) then null
            when c.cause = 'imbalance' then s.imbalance_ps
            when c.cause = 'pipeline' then s.pipeline_ps
            else s.within_ps - s.device_ps - s.host_ps - s.imbalance_ps - s.pipeline_ps
        end as idle_ps,
        case when c.cause = 'pipeline' then s.masked_ps else 0 end as masked_ps,
        case when c.cause = 'pipeline' then s.masked_source end as masked_source,
        case when c.cause = 'pipeline' then s.ideal_ratio end as ideal_ratio,
        case when c.cause = 'pipeline' then s.fill_drain_ps else 0 end as fill_drain_ps
    from split as s
    cross join causes as c
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
    -- length of the step's period: the window, and the time before it since the device's previous step,
    -- without between_requests; NULL where requests are marked and clocks cannot be compared
    cast(period_ps as bigint) as period_ps,
    -- time before the window in which no request was open, outside the period; NULL as the period
    cast(between_requests_ps as bigint) as between_requests_ps,
    -- idle / period
    cast(idle_ps as double) / nullif(cast(period_ps as double), 0) as bubble_ratio,
    -- compute time spent on empty microbatches, in the row pipeline; 0 in the other rows; NULL where it
    -- is not measured
    cast(masked_ps as bigint) as masked_ps,
    -- in the row pipeline: tick (measured), no_pipeline or separate_stages (nothing is masked), else
    -- why it is not known: no_tick_markers or unknown_pipeline
    masked_source,
    -- idle time before and after the window in which the step is under way on peers, in the row
    -- pipeline where stages are separate; part of the between_steps of this step and the next one,
    -- but for a device's first and last step; 0 in the other rows, NULL where stages are not known
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
