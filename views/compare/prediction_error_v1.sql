-- one row per method, change and phase of predictions
-- How far predictions of one kind were from the measured times, over all runs of the warehouse:
-- predicted_step has each prediction. Without a measured run the errors are not known.
with ranked as (
    select
        run_id,
        method,
        change,
        phase,
        error_ratio,
        row_number() over (
            partition by method, change, phase order by error_ratio nulls last
        ) as place,
        count(error_ratio) over (partition by method, change, phase) as pairs
    from predicted_step_v1
)

select
    -- replay or forecast
    method,
    -- what was changed in a replay, such as chip=v5p; NULL of a forecast
    change,
    -- prefill or decode
    phase,
    -- one of these predictions, the run with the lowest id
    min(run_id) as run_id,
    -- predictions of this kind
    cast(count(*) as bigint) as predictions,
    -- of these, the ones with a measured run of the predicted setup
    cast(max(pairs) as bigint) as pairs,
    -- median of predicted / measured - 1 over the pairs; NULL without any
    avg(case when place in ((pairs + 1) // 2, (pairs + 2) // 2) then error_ratio end)
        as median_error_ratio,
    -- the largest distance from 0 among them
    max(abs(error_ratio)) as largest_error_ratio
from ranked
group by method, change, phase
