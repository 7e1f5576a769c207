-- one row per pair of runs and metric that both have
-- Every ordered pair: run_id is the base, other_run_id the run to compare with. Differences are
-- judged by the medians of their setups' measured repeats: inconclusive while the difference is
-- within the larger spread, or a setup has one measured run, or both are of one setup and source.
-- Bytes and counts are exact: one run of each decides, unless repeats differ by as much. differing
-- names the settings that differ; with more than one, the difference cannot be attributed to any of
-- them. Compare rates of runs on different numbers of devices by their metrics per chip.
with facts as (
    select
        run_id, name, model, layers, dtype, parallelism, batch_size, microbatches, prompt_tokens,
        output_tokens, device_kind, device_count, framework_versions, setup
    from runs
),

pairs as (
    select
        v.run_id, u.run_id as other_run_id, v.metric,
        b.name, o.name as other_name,
        v.less_is_better, v.is_exact,
        v.source, u.source as other_source,
        v.value, u.value as other_value,
        v.runs, u.runs as other_runs,
        v.median, u.median as other_median,
        greatest(v.spread, u.spread) as spread,
        v.setup_key = u.setup_key and v.source = u.source as is_repeat,
        b.setup <> o.setup as has_other_setup,
        concat_ws(
            ', ',
            case when b.model is distinct from o.model then 'model' end,
            case when b.layers is distinct from o.layers then 'layers' end,
            case when b.dtype is distinct from o.dtype then 'dtype' end,
            case when b.parallelism is distinct from o.parallelism then 'parallelism' end,
            case when b.batch_size is distinct from o.batch_size then 'batch_size' end,
            case when b.microbatches is distinct from o.microbatches then 'microbatches' end,
            case when b.prompt_tokens is distinct from o.prompt_tokens then 'prompt_tokens' end,
            case when b.output_tokens is distinct from o.output_tokens then 'output_tokens' end,
            case when b.device_kind is distinct from o.device_kind then 'device_kind' end,
            case when b.device_count is distinct from o.device_count then 'device_count' end,
            case
                when b.framework_versions is distinct from o.framework_versions
                    then 'framework_versions'
            end
        ) as listed,
        case when b.model is distinct from o.model then 1 else 0 end
        + case when b.layers is distinct from o.layers then 1 else 0 end
        + case when b.dtype is distinct from o.dtype then 1 else 0 end
        + case when b.parallelism is distinct from o.parallelism then 1 else 0 end
        + case when b.batch_size is distinct from o.batch_size then 1 else 0 end
        + case when b.microbatches is distinct from o.microbatches then 1 else 0 end
        + case when b.prompt_tokens is distinct from o.prompt_tokens then 1 else 0 end
        + case when b.output_tokens is distinct from o.output_tokens then 1 else 0 end
        + case when b.device_kind is distinct from o.device_kind then 1 else 0 end
        + case when b.device_count is distinct from o.device_count then 1 else 0 end
        + case when b.framework_versions is distinct from o.framework_versions then 1 else 0 end
            as listed_count
    from _run_metric_v2 as v
    inner join _run_metric_v2 as u on u.metric = v.metric and u.run_id <> v.run_id
    inner join facts as b on b.run_id = v.run_id
    inner join facts as o on o.run_id = u.run_id
),

compared as (
    select
        *,
        other_median - median as difference,
        listed_count = 0 and has_other_setup as differs_elsewhere
    from pairs
)

select
    -- base run
    run_id,
    -- the run to compare with
    other_run_id,
    -- name of the metric, with its unit, as in run_summary
    metric,
    -- name of the base
    name,
    -- name of the other run
    other_name,
    -- source of the base: measured, compiled or predicted
    source,
    -- source of the other run
    other_source,
    -- bytes or a count, not a time: one run of each decides
    is_exact,
    -- value of the base
    value,
    -- value of the other run
    other_value,
    -- other / base
    other_value / nullif(value, 0) as value_ratio,
    -- measured runs of the base's setup that have the metric
    runs,
    -- measured runs of the other run's setup that have the metric
    other_runs,
    -- median over the base's setup
    median,
    -- median over the other run's setup
    other_median,
    -- the other run's median less the base's
    difference,
    -- the larger spread of the two setups; NULL with one run each
    spread,
    -- better or worse (the other run), equal (exact metrics alone), or inconclusive
    case
        when is_exact and difference = 0 and coalesce(spread, 0) = 0 then 'equal'
        when not is_exact and (is_repeat or runs < 2 or other_runs < 2) or abs(difference) <= spread then 'inconclusive'
        when (difference < 0) = less_is_better then 'better'
        else 'worse'
    end as verdict,
    -- number of settings that differ
    cast(case when differs_elsewhere then 1 else listed_count end as bigint) as differing_count,
    -- their names; settings: the setups differ in something else. Empty for repeats of one setup
    case when differs_elsewhere then 'settings' else listed end as differing,
    -- the runs are repeats of one setup: their own values differ, their median is one
    is_repeat
from compared
