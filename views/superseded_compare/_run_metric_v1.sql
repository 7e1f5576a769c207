-- one row per run and metric that it has
-- The headline metrics of run_summary as rows; a metric that a run lacks has no row. Repeats of a
-- setup give n, median (the value of row ceil(n / 2)) and spread.
with names as (
    select metric, less_is_better
    from (
        values
        ('ttft_s', true), ('tpot_s', true), ('output_tokens_per_s', false),
        ('comm_compute_ratio', true), ('exposed_ratio', true), ('sync_wait_ratio', true),
        ('idle_ratio', true), ('wire_bytes', true)
    ) as rows_of (metric, less_is_better)
),

valued as (
    select
        r.run_id,
        n.metric,
        n.less_is_better,
        case
            when n.metric = 'ttft_s' then r.ttft_s
            when n.metric = 'tpot_s' then r.tpot_s
            when n.metric = 'output_tokens_per_s' then r.output_tokens_per_s
            when n.metric = 'comm_compute_ratio' then r.comm_compute_ratio
            when n.metric = 'exposed_ratio' then r.exposed_ratio
            when n.metric = 'sync_wait_ratio' then r.sync_wait_ratio
            when n.metric = 'idle_ratio' then r.idle_ratio
            when n.metric = 'wire_bytes' then r.wire_bytes
        end as value
    from run_summary_v1 as r
    cross join names as n
),

owned as (
    select v.*, coalesce(r.setup, concat('run ', v.run_id)) as setup_key
    from valued as v
    inner join runs as r on r.run_id = v.run_id
),

-- Repeats of a setup give n, median (the value of row ceil(n / 2)) and spread.
ranked as (
    select
        *,
        row_number() over (
            partition by setup_key, metric order by value nulls last, run_id
        ) as place,
        count(value) over (partition by setup_key, metric) as places
    from owned
)

select
    -- run
    run_id,
    -- name of the metric, with its unit, as in run_summary
    metric,
    -- a smaller value is better
    less_is_better,
    -- value
    value,
    -- key of the repeats: the setup, or the run itself where its setup is not known
    setup_key,
    -- runs of the setup that have the metric
    cast(places as bigint) as runs,
    -- median over them
    max(case when place = (places + 1) // 2 then value end)
        over (partition by setup_key, metric) as median,
    -- greatest less least of them; NULL with one
    case
        when places > 1
            then max(value) over (partition by setup_key, metric)
            - min(value) over (partition by setup_key, metric)
    end as spread
from ranked
where value is not null
