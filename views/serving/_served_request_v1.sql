-- one row per run and request of a server
-- What latency_v3 says of the requests of servers, from served_requests and the times of their steps.
-- Requests during which a host compiled, or a warm-up ran, are left out. A request whose steps are of clocks
-- that cannot be compared has no times.
with steps as (
    select run_id, step, start_ps, marker_end_ps, end_ps, clock_group
    from _server_time_v1
),

timed as (
    select
        r.*,
        f.start_ps, f.end_ps as first_end_ps, t.end_ps as token_end_ps, l.end_ps as last_end_ps,
        coalesce(l.end_ps, l.marker_end_ps) as seen_until_ps, f.clock_group,
        a.run_id is not null or not coalesce(
            l.clock_group = f.clock_group and (t.run_id is null or t.clock_group = f.clock_group), false
        ) as is_apart,
        -- the trace has a step end before it begins, or before an earlier one does
        coalesce(coalesce(t.end_ps, f.end_ps) < f.start_ps, false)
        or coalesce(l.end_ps < coalesce(t.end_ps, f.end_ps, f.start_ps), false) as is_backward
    from served_requests as r
    inner join steps as f on f.run_id = r.run_id and f.step = r.first_step
    inner join steps as l on l.run_id = r.run_id and l.step = r.last_step
    left join steps as t on t.run_id = r.run_id and t.step = r.token_step
    left join _ambiguous_run_v1 as a on a.run_id = r.run_id
),

excluded as (
    select t.run_id, t.request
    from timed as t
    inner join _unmeasured_time_v1 as u
        on u.run_id = t.run_id and u.start_ps < t.seen_until_ps and u.end_ps > t.start_ps
        and coalesce(u.clock_group = t.clock_group, true)
    group by t.run_id, t.request
),

opened as (
    select t.run_id, t.request, min(p.start_ps) as request_start_ps
    from timed as t
    inner join phases as p
        on p.run_id = t.run_id and p.request = t.request and p.start_ps <= t.start_ps
        and p.start_ps + p.duration_ps >= t.start_ps
    left join _apart_clock_v1 as h on h.run_id = p.run_id and h.host = p.host
    where p.source = 'marker' and p.phase = 'request'
        and coalesce(h.clock_group = t.clock_group, true)
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
    case when not t.is_apart and not t.is_backward then t.token_end_ps end as first_token_ps,
    -- end of its last step
    case when not t.is_apart and not t.is_backward then t.last_end_ps end as end_ps,
    -- it is seen to begin and to end
    t.is_begun and t.is_ended as is_whole,
    -- steps after its prompt; without a prompt in the trace, after the first that is seen
    t.decode_steps,
    -- output tokens in the steps that are seen; NULL where the trace does not tell
    t.output_tokens,
    -- time per token of the steps after its first token, or after the first step that is seen
    case
        when not t.is_apart and not t.is_backward
            then cast(
                t.last_end_ps - case when t.token_step is null then t.first_end_ps else t.token_end_ps end
                as double
            ) / 1e12 / nullif(t.decode_tokens, 0)
    end as tpot_s,
    -- why the time of the first token, or the time per token, is NULL; NULL where both are known
    case
        when t.is_apart then 'the clocks of devices and hosts cannot be compared'
        when t.is_backward then 'the times of the steps run backwards in the trace'
        when t.lacks_tokens
            then 'a step with more tokens than requests does not state the tokens of each'
        when t.may_skip then 'a step lacks the ids of some requests: this one may have been in it'
        when not t.is_begun then 'the request may have begun before the trace'
        when t.token_step is null and not t.seen_decode
            then 'the trace ends before the prompt is seen to be complete'
        when t.token_step is null or t.decode_tokens is null
            then 'which tokens are of the prompt is not known'
        when t.token_end_ps is null or t.last_end_ps is null
            then 'the trace lacks the ops of the step that gives the first or the last token'
        when t.decode_tokens = 0 then 'no decode step: there is no time between tokens'
    end as reason
from timed as t
left join opened as o on o.run_id = t.run_id and o.request = t.request
left join excluded as x on x.run_id = t.run_id and x.request = t.request
where x.run_id is null
