-- one row per run and request of a server
-- What latency_v3 says of the requests of servers. A request's prompt is complete with the last step
-- that has tokens of its prompt, where a step of the request without any follows, or the request
-- ends. Everything that rests on tokens which the trace does not state by request is NULL.
with steps as (
    select
        run_id, step, min(host) as host, min(start_ps) as start_ps, max(marker_end_ps) as marker_end_ps,
        case when count(end_ps) = count(*) then max(end_ps) end as end_ps
    from _served_step_v1
    group by run_id, step
),

served as (
    select
        b.run_id, b.request, b.step, b.tokens, b.prompt_tokens, b.is_first, b.is_last, b.may_skip
    from step_requests as b
    inner join steps as s on s.run_id = b.run_id and s.step = b.step and s.host = b.host
),

counted as (
    select
        run_id, request,
        min(step) as first_step,
        max(step) as last_step,
        min(case when prompt_tokens = 0 then step end) as decode_step,
        max(case when is_first then 1 else 0 end) as begun,
        max(case when is_last then 1 else 0 end) as ended,
        min(case when tokens is null then step end) as unknown_step,
        min(case when prompt_tokens is null then step end) as unclear_step,
        min(case when may_skip then step end) as skip_step,
        sum(case when tokens is null or (tokens > 1 and prompt_tokens is null) then 1 else 0 end)
            as unknown_rows
    from served
    group by run_id, request
),

split as (
    select
        s.run_id, s.request,
        max(case when s.prompt_tokens > 0 and (c.decode_step is null or s.step < c.decode_step) then s.step end)
            as prompt_step,
        sum(case when s.step > c.first_step and s.prompt_tokens = 0 then 1 else 0 end) as decode_steps,
        sum(case when s.step > c.first_step and s.prompt_tokens = 0 then s.tokens else 0 end)
            as decode_tokens,
        sum(
            case when s.step > c.first_step and coalesce(s.prompt_tokens, 1) > 0 then 1 else 0 end
        ) as other_rows,
        sum(case when s.prompt_tokens = 0 or s.tokens = 1 then s.tokens else 0 end) as single_tokens
    from served as s
    inner join counted as c on c.run_id = s.run_id and c.request = s.request
    group by s.run_id, s.request
),

-- The step with the first token: known where nothing before the first step without tokens of the prompt
-- is unknown.
placed as (
    select
        c.*, p.prompt_step, p.decode_steps, p.decode_tokens, p.other_rows, p.single_tokens,
        case
            when c.begun = 1 and p.prompt_step is not null
                and (c.decode_step is not null or c.ended = 1)
                and coalesce(c.unclear_step > c.decode_step, c.unclear_step is null)
                and coalesce(c.skip_step > c.decode_step, c.skip_step is null)
                then p.prompt_step
        end as token_step
    from counted as c
    inner join split as p on p.run_id = c.run_id and p.request = c.request
),

unmeasured as (
    select run_id, start_ps, start_ps + duration_ps as end_ps
    from phases
    where phase = 'warmup'
    union all
    select run_id, start_ps, end_ps
    from _compile_v1
),

timed as (
    select
        p.*,
        f.start_ps, t.end_ps as token_end_ps, l.end_ps as last_end_ps, f.end_ps as first_end_ps,
        coalesce(l.end_ps, l.marker_end_ps) as seen_until_ps
    from placed as p
    inner join steps as f on f.run_id = p.run_id and f.step = p.first_step
    inner join steps as l on l.run_id = p.run_id and l.step = p.last_step
    left join steps as t on t.run_id = p.run_id and t.step = p.token_step
),

excluded as (
    select t.run_id, t.request
    from timed as t
    inner join unmeasured as u
        on u.run_id = t.run_id and u.start_ps < t.seen_until_ps and u.end_ps > t.start_ps
    group by t.run_id, t.request
),

opened as (
    select t.run_id, t.request, min(p.start_ps) as request_start_ps
    from timed as t
    inner join phases as p
        on p.run_id = t.run_id and p.request = t.request and p.start_ps <= t.start_ps
        and p.start_ps + p.duration_ps >= t.start_ps
    where p.source = 'marker' and p.phase = 'request'
    group by t.run_id, t.request
)

select
    -- run
    t.run_id,
    -- request
    t.request,
    -- start of the request's own marker on the host; NULL without
    o.request_start_ps,
    -- start of its first step's marker on the host
    t.start_ps,
    -- end of the step that completes its prompt; NULL where the trace does not tell
    case when a.run_id is null then t.token_end_ps end as first_token_ps,
    -- end of its last step
    case when a.run_id is null then t.last_end_ps end as end_ps,
    -- it is seen to begin
    t.begun = 1 as is_begun,
    -- it is seen to end
    t.ended = 1 as is_ended,
    -- steps after its prompt; without a prompt in the trace, after the first that is seen
    cast(t.decode_steps as bigint) as decode_steps,
    -- output tokens in the steps that are seen; NULL where the trace does not tell
    cast(
        case
            when t.unknown_rows > 0 or t.skip_step is not null then null
            when t.token_step is not null
                then t.single_tokens + case when k.tokens > 1 then 1 else 0 end
            when t.prompt_step is null then t.single_tokens
        end as bigint
    ) as output_tokens,
    -- time per token of the steps after its first token, or after the first step that is seen
    case
        when a.run_id is null and t.unknown_step is null and t.skip_step is null
            and (t.token_step is not null or (t.begun = 0 and t.other_rows = 0))
            then cast(t.last_end_ps - coalesce(t.token_end_ps, t.first_end_ps) as double) / 1e12
                / nullif(t.decode_tokens, 0)
    end as tpot_s,
    -- why the time of the first token, or the time per token, is NULL; NULL where both are known
    case
        when a.run_id is not null then 'the clocks of devices and hosts cannot be compared'
        when t.unknown_step is not null
            then 'a step with more tokens than requests does not state the tokens of each'
        when t.skip_step is not null
            then 'a step lacks the ids of some requests: this one may have been in it'
        when t.begun = 0 then 'the request may have begun before the trace'
        when t.token_step is null and t.decode_step is null
            then 'the trace ends before the prompt is seen to be complete'
        when t.token_step is null then 'which tokens are of the prompt is not known'
        when t.token_end_ps is null or t.last_end_ps is null
            then 'the trace lacks the ops of the step that gives the first or the last token'
        when t.decode_tokens = 0 then 'no decode step: there is no time between tokens'
    end as reason
from timed as t
left join served as k
    on k.run_id = t.run_id and k.request = t.request and k.step = t.token_step
left join opened as o on o.run_id = t.run_id and o.request = t.request
left join excluded as x on x.run_id = t.run_id and x.request = t.request
left join _clocks_apart_v1 as a on a.run_id = t.run_id
where x.run_id is null
