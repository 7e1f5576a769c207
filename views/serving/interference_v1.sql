-- one row per run and number of requests in a decode or mixed step of a server
-- What a prefill in the batch costs the decodes beside it: the period of steps that do both, compared with
-- steps of as many requests that only decode. Periods are those of serving_step_v1, the mean over all devices of the
-- step; steps without a period are left out. A median of an even number is the mean of the two middle ones.
with ranked as (
    select
        run_id, phase, requests, tokens, period_s,
        row_number() over (partition by run_id, phase, requests order by period_s, step) as place,
        count(*) over (partition by run_id, phase, requests) as places
    from _server_pass_v1
    where phase in ('decode', 'mixed') and period_s is not null
),

medians as (
    select
        run_id, requests,
        sum(case when phase = 'decode' then 1 else 0 end) as decode_steps,
        sum(case when phase = 'mixed' then 1 else 0 end) as mixed_steps,
        avg(
            case
                when phase = 'decode' and place in ((places + 1) // 2, (places + 2) // 2)
                    then period_s
            end
        ) as decode_period_s,
        avg(
            case
                when phase = 'mixed' and place in ((places + 1) // 2, (places + 2) // 2) then period_s
            end
        ) as mixed_period_s,
        avg(case when phase = 'mixed' then cast(tokens as double) end) as mixed_tokens
    from ranked
    group by run_id, requests
)

select
    -- run
    run_id,
    -- requests in the batch
    requests,
    -- steps that only decode
    cast(decode_steps as bigint) as decode_steps,
    -- steps with a prefill in the batch
    cast(mixed_steps as bigint) as mixed_steps,
    -- period of a step that only decodes, median; NULL without one
    decode_period_s,
    -- period of a step with a prefill in the batch, median; NULL without one
    mixed_period_s,
    -- tokens of a step with a prefill in the batch, mean
    mixed_tokens,
    -- what the prefill adds to the step that the decodes share with it
    mixed_period_s - decode_period_s as added_s,
    -- period with a prefill in the batch / period without
    mixed_period_s / nullif(decode_period_s, 0) as slowdown_ratio
from medians
