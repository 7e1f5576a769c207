-- one row per run, phase and number of requests of a server's steps
-- How long steps take, by their phase and the requests in the batch. A period is that of serving_step_v1, the
-- mean over all devices of the step; steps whose ops the trace lacks are counted apart. Medians of an
-- even number are the mean of the two middle ones; other percentiles are the value of row ceil(p n).
with ranked as (
    select
        *,
        row_number() over (
            partition by run_id, phase, requests order by period_s nulls last, step
        ) as place,
        count(period_s) over (partition by run_id, phase, requests) as places
    from _server_pass_v1
)

select
    -- run
    run_id,
    -- prefill, decode, mixed, or step where the trace does not tell
    phase,
    -- requests in the batch
    requests,
    -- steps whose period is known
    cast(max(places) as bigint) as steps,
    -- steps whose ops the trace lacks
    cast(count(*) - max(places) as bigint) as lost_steps,
    -- tokens of a step, mean
    avg(cast(tokens as double)) as mean_tokens,
    -- period, mean
    avg(period_s) as mean_period_s,
    -- median
    avg(case when place in ((places + 1) // 2, (places + 2) // 2) then period_s end) as p50_period_s,
    -- 90th percentile
    max(case when place = (90 * places + 99) // 100 then period_s end) as p90_period_s,
    -- 99th percentile
    max(case when place = (99 * places + 99) // 100 then period_s end) as p99_period_s,
    -- share of the periods in which a compute op runs; NULL where kernels communicate
    cast(sum(compute_ps) as double)
        / nullif(sum(case when compute_ps is not null then all_period_ps end), 0) as compute_ratio,
    -- share in which a collective is in flight and no compute op runs
    cast(sum(exposed_ps) as double)
        / nullif(sum(case when exposed_ps is not null then all_period_ps end), 0) as exposed_ratio,
    -- share in which the host was late: no launch was open, in gaps longer than 10 us; NULL of virtual
    -- devices
    cast(sum(host_gap_ps) as double)
        / nullif(sum(case when host_gap_ps is not null then all_period_ps end), 0) as host_gap_ratio
from ranked
group by run_id, phase, requests
