"""Pairs of setups that differ in one thing alone, as SQL: each pair, and the effects ranked."""

from __future__ import annotations

# Factor -> its name.
FACTORS = {
    "model": "model",
    "batch_size": "batch size",
    "prompt_tokens": "prompt length",
    "output_tokens": "output length",
    "parallelism": "parallelism",
}
STUDY_METRICS = {
    "output_tokens_per_s": "Output tokens/s",
    "output_tokens_per_s_per_chip": "Output tokens/s per chip",
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "wire_bytes": "Wire bytes",
}

# A pair is controlled where its setups differ in one thing. A model brings its layers; a mesh its number of
# devices and, where it is a pipeline, its microbatches. Each pair of setups counts once, by its first
# runs; settings of ours that no column names (options) have to be the same.
PAIRS_SQL = """
with compared as (
    select
        c.metric,
        case
            when c.differing in ('model', 'model, layers') then 'model'
            when c.differing in ('batch_size', 'prompt_tokens', 'output_tokens') then c.differing
            when c.differing in ('parallelism', 'parallelism, device_count') then 'parallelism'
            when c.differing in ('parallelism, microbatches', 'parallelism, microbatches, device_count')
                and (b.parallelism like '%pp%') <> (o.parallelism like '%pp%') then 'parallelism'
        end as factor,
        b as base,
        o as other,
        c.median,
        c.other_median,
        c.runs,
        c.other_runs,
        c.spread,
        c.verdict
    from run_comparison_v2 as c
    inner join runs as b on b.run_id = c.run_id
    inner join runs as o on o.run_id = c.other_run_id
    where
        list_contains($runs, c.run_id)
        and list_contains($runs, c.other_run_id)
        and c.metric in (
            'output_tokens_per_s', 'output_tokens_per_s_per_chip', 'ttft_s', 'tpot_s', 'wire_bytes'
        )
        and b.options is not distinct from o.options
        -- of models that are not known, no pair is of one model
        and b.model is not null
        and o.model is not null
), ordered as (
    select
        *,
        row_number() over (
            partition by
                factor, metric, coalesce(base.setup, base.run_id), coalesce(other.setup, other.run_id)
            order by base.run_id, other.run_id
        ) as place
    from compared
    where
        factor is not null
        -- of the two directions the one from less to more
        and case factor
            when 'model' then
                (coalesce(base.parameters, 0), base.model) < (coalesce(other.parameters, 0), other.model)
            when 'batch_size' then base.batch_size < other.batch_size
            when 'prompt_tokens' then base.prompt_tokens < other.prompt_tokens
            when 'output_tokens' then base.output_tokens < other.output_tokens
            else
                (coalesce(base.device_count, 0), base.parallelism)
                < (coalesce(other.device_count, 0), other.parallelism)
        end
), pairs as (
    select
        factor,
        metric,
        case factor
            when 'model' then base.model
            when 'batch_size' then cast(base.batch_size as varchar)
            when 'prompt_tokens' then cast(base.prompt_tokens as varchar)
            when 'output_tokens' then cast(base.output_tokens as varchar)
            else base.parallelism
        end as from_value,
        case factor
            when 'model' then other.model
            when 'batch_size' then cast(other.batch_size as varchar)
            when 'prompt_tokens' then cast(other.prompt_tokens as varchar)
            when 'output_tokens' then cast(other.output_tokens as varchar)
            else other.parallelism
        end as to_value,
        concat_ws(
            ', ',
            case when factor <> 'model' then coalesce(base.model, 'unknown model') end,
            case when factor <> 'parallelism' then base.parallelism end,
            case when factor <> 'batch_size' then 'batch ' || base.batch_size end,
            case when factor <> 'prompt_tokens' then 'prompt ' || base.prompt_tokens end,
            case when factor <> 'output_tokens' then 'output ' || base.output_tokens end,
            base.dtype,
            base.device_kind
        ) as held,
        median as from_median,
        other_median as to_median,
        other_median / nullif(median, 0) as effect_ratio,
        -- greatest() passes over NULL, and would say 0 where one of the two is 0
        case when median > 0 and other_median > 0
            then greatest(other_median / median, median / other_median) end as times,
        runs as from_runs,
        other_runs as to_runs,
        spread,
        verdict,
        coalesce(base.name, base.run_id) as from_run,
        coalesce(other.name, other.run_id) as to_run
    from ordered
    where place = 1
)"""

ROWS_SQL = f"""{PAIRS_SQL.strip()}
select *
from pairs
order by factor, metric, times desc nulls last, from_run, to_run, from_value, to_value
"""

# Pairs that differ in the same way, together.
EFFECTS_SQL = f"""{PAIRS_SQL.strip()}
select
    factor,
    from_value,
    to_value,
    metric,
    count(*) as pairs,
    count(times) as known,
    count(*) filter (where verdict <> 'inconclusive') as conclusive,
    median(effect_ratio) filter (where times is not null) as median_ratio,
    min(effect_ratio) filter (where times is not null) as least_ratio,
    max(effect_ratio) filter (where times is not null) as most_ratio
from pairs
group by factor, from_value, to_value, metric
order by factor, metric, abs(ln(median_ratio)) desc nulls last, from_value, to_value
"""
