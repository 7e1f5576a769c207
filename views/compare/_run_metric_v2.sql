-- one row per run and metric that it has
-- The headline metrics of run_summary as rows; a metric that a run lacks has no row. Repeats of a
-- setup, of one source, give n, median (of an even number, the mean of the two middle values) and
-- spread. Source: measured by a profiler, compiled or predicted (runs.source). launch_period_s is not
-- a metric: programs of two runs need not do the same work.
with names as (
    select metric, less_is_better, is_exact
    from (
        values
        ('ttft_s', true, false), ('tpot_s', true, false), ('output_tokens_per_s', false, false),
        ('output_tokens_per_s_per_chip', false, false), ('system_tokens_per_s', false, false),
        ('system_tokens_per_s_per_chip', false, false), ('comm_compute_ratio', true, false),
        ('exposed_ratio', true, false), ('sync_wait_ratio', true, false),
        ('idle_ratio', true, false), ('idle_in_step_ratio', true, false),
        ('collectives', true, true), ('payload_bytes', true, true), ('wire_bytes', true, true)
    ) as rows_of (metric, less_is_better, is_exact)
),

valued as (
    select
        r.run_id,
        n.metric,
        n.less_is_better,
        n.is_exact,
        case
            when n.metric = 'ttft_s' then r.ttft_s
            when n.metric = 'tpot_s' then r.tpot_s
            when n.metric = 'output_tokens_per_s' then r.output_tokens_per_s
            when n.metric = 'output_tokens_per_s_per_chip' then r.output_tokens_per_s_per_chip
            when n.metric = 'system_tokens_per_s' then r.system_tokens_per_s
            when n.metric = 'system_tokens_per_s_per_chip' then r.system_tokens_per_s_per_chip
            when n.metric = 'comm_compute_ratio' then r.comm_compute_ratio
            when n.metric = 'exposed_ratio' then r.exposed_ratio
            when n.metric = 'sync_wait_ratio' then r.sync_wait_ratio
            when n.metric = 'idle_ratio' then r.idle_ratio
            when n.metric = 'idle_in_step_ratio' then r.idle_in_step_ratio
            when n.metric = 'collectives' then r.collectives
            when n.metric = 'payload_bytes' then r.payload_bytes
            when n.metric = 'wire_bytes' then r.wire_bytes
        end as value
    from run_summary_v2 as r
    cross join names as n
),

owned as (
    select
        v.*,
        coalesce(r.setup, concat('run ', v.run_id)) as setup_key,
        case when r.source in ('compiled', 'predicted') then r.source else 'measured' end as source
    from valued as v
    inner join runs as r on r.run_id = v.run_id
),

ranked as (
    select
        *,
        row_number() over (
            partition by setup_key, source, metric order by value nulls last, run_id
        ) as place,
        count(value) over (partition by setup_key, source, metric) as places
    from owned
)

select
    -- run
    run_id,
    -- name of the metric, with its unit, as in run_summary
    metric,
    -- a smaller value is better
    less_is_better,
    -- bytes or a count, not a time: repeats agree, and one run decides
    is_exact,
    -- value
    value,
    -- key of the repeats: the setup, or the run itself where its setup is not known
    setup_key,
    -- measured, compiled or predicted
    source,
    -- measured runs of the setup that have the metric; 0 of a compiled or predicted one
    cast(case when source = 'measured' then places else 0 end as bigint) as runs,
    -- median over the setup's runs of this source
    avg(case when place in ((places + 1) // 2, (places + 2) // 2) then value end)
        over (partition by setup_key, source, metric) as median,
    -- greatest less least of them; NULL with one
    case
        when places > 1
            then max(value) over (partition by setup_key, source, metric)
            - min(value) over (partition by setup_key, source, metric)
    end as spread
from ranked
where value is not null
