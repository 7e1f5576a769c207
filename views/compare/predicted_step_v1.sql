-- one row per prediction and phase: predicted runs, and compiled runs with a forecast
-- A step's predicted time beside the measured one, where the warehouse has measured runs of the setup
-- that was predicted. A forecast is about its own setup. A replay is about runs of the same model,
-- size, type, batch, lengths, parallelism, devices and software whose peaks are those that the run has
-- after the change, its parent aside. Only `nothing`, another chip and another speed of links
-- describe hardware that a run can be measured on; replays with another change are never compared, and
-- forecasts with a change have no rows. A
-- replay gives the period of a device's step, a forecast an interval for its window, without the host.
with times as (
    select
        run_id,
        phase,
        case when count(period_ps) = count(*) then avg(period_ps) end as period_ps,
        avg(window_ps) as window_ps
    from device_time_v1
    where phase in ('prefill', 'decode') and core is distinct from 'sparsecore'
    group by run_id, phase
),

predictions as (
    select
        r.run_id, t.phase, 'replay' as method, r.change,
        t.period_ps as least_ps, t.period_ps as most_ps
    from runs as r
    inner join times as t on t.run_id = r.run_id
    where r.source = 'predicted'
    union all
    select
        run_id, phase, 'forecast' as method, cast(null as varchar) as change,
        cast(optimistic_ps as double) as least_ps, cast(pessimistic_ps as double) as most_ps
    from forecast
    where change is null
),

hardware as (
    select
        run_id,
        min(peak_flops_per_s) as flops_per_s,
        min(peak_hbm_bytes_per_s) as hbm_bytes_per_s,
        min(peak_ici_bytes_per_s) as ici_bytes_per_s
    from hardware_peaks_v1
    group by run_id
),

sourced as (
    select
        r.*,
        coalesce(r.source, '') in ('compiled', 'predicted') as is_predicted,
        h.flops_per_s, h.hbm_bytes_per_s, h.ici_bytes_per_s
    from runs as r
    left join hardware as h on h.run_id = r.run_id
),

measured as (
    select p.run_id, t.phase, t.period_ps as time_ps
    from sourced as p  -- measured runs have no change
    inner join sourced as m
        on m.model = p.model and m.parallelism = p.parallelism and m.batch_size = p.batch_size
        and m.prompt_tokens = p.prompt_tokens and m.output_tokens = p.output_tokens
        and m.flops_per_s = p.flops_per_s and m.hbm_bytes_per_s = p.hbm_bytes_per_s
        and m.ici_bytes_per_s = p.ici_bytes_per_s
    inner join times as t on t.run_id = m.run_id
    where not m.is_predicted and m.run_id <> p.parent_run_id
        and m.layers is not distinct from p.layers
        and m.hidden_size is not distinct from p.hidden_size
        and m.dtype is not distinct from p.dtype
        and m.microbatches is not distinct from p.microbatches
        and m.expected_device_count is not distinct from p.expected_device_count
        and m.framework_versions is not distinct from p.framework_versions
        and (p.change = 'nothing' or p.change like 'chip=%' or p.change like 'ici=%x')
        and not (p.change like '%, %')
    union all
    select f.run_id, f.phase, t.window_ps as time_ps
    from forecast as f
    inner join runs as p on p.run_id = f.run_id
    inner join sourced as m on m.setup = p.setup
    inner join times as t on t.run_id = m.run_id and t.phase = f.phase
    where not m.is_predicted and f.change is null
),

ranked as (
    select
        *,
        row_number() over (partition by run_id, phase order by time_ps) as place,
        count(*) over (partition by run_id, phase) as places
    from measured
    where time_ps is not null
),

medians as (
    select
        run_id,
        phase,
        count(*) as runs,
        avg(case when place in ((places + 1) // 2, (places + 2) // 2) then time_ps end) as time_ps
    from ranked
    group by run_id, phase
)

select
    -- predicted run, or compiled run
    p.run_id,
    -- name of that run
    r.name,
    -- replay or forecast
    p.method,
    -- what was changed in a replay, such as chip=v5p; NULL of a forecast
    p.change,
    -- prefill or decode
    p.phase,
    -- predicted at best: of a replay the mean period of a device's step, of a forecast its optimistic time
    cast(round(p.least_ps) as bigint) as least_predicted_ps,
    -- predicted at worst: of a replay the same, of a forecast its pessimistic time
    cast(round(p.most_ps) as bigint) as most_predicted_ps,
    -- measured runs of the predicted setup that have steps of the phase
    cast(coalesce(m.runs, 0) as bigint) as runs,
    -- median over these of a device's mean step: its period, beside a forecast its window; NULL without any
    cast(round(m.time_ps) as bigint) as measured_ps,
    -- predicted / measured - 1; 0 where the measured time lies in the interval, else of its nearer end
    case
        when nullif(m.time_ps, 0) is not null and p.least_ps is not null
            then greatest(
                p.least_ps / nullif(m.time_ps, 0) - 1,
                least(p.most_ps / nullif(m.time_ps, 0) - 1, 0)
            )
    end as error_ratio
from predictions as p
inner join runs as r on r.run_id = p.run_id
left join medians as m on m.run_id = p.run_id and m.phase = p.phase
