-- one row per run and request that markers name, and one for a run without markers
-- TTFT: start of the prefill marker on the host to the end of the last prefill op over all devices.
-- TPOT: (end of the last decode step - end of prefill) / decode steps. e2e: TTFT's start to the last
-- step's end. What the trace does not give is NULL, and `reason` says why. Warm-up requests and
-- requests during which a host compiles are left out (run_summary counts them). The median of decode
-- steps is the mean of the two middle ones where their number is even; other percentiles are the
-- value of row ceil(p n). The host clock's values are means over the run's requests. A run without
-- markers (source = module) has no requests, so neither TTFT nor TPOT: its row has the period of the
-- program with the most launch instances (of two with equally many, the one that took longer, then
-- the lower program_id). Such a period need not be a token's. All is NULL where it is ambiguous how far
-- clocks are apart (table clocks). Where no collective connects them, a request counts on each group of
-- clocks from its own first marker there, and TTFT and e2e are the largest over groups (_request_clock_v1);
-- launches count within one group, the one with the most.
with steps as (
    select
        *,
        row_number() over (partition by run_id, request order by step desc) as steps_from_last,
        case when step > 0 then latency_s end as decode_s
    from step_latency_v1
),

ranked as (
    select
        run_id, request, decode_s,
        row_number() over (partition by run_id, request order by decode_s) as place,
        count(*) over (partition by run_id, request) as places
    from steps
    where decode_s is not null
),

percentiles as (
    select
        run_id, request,
        avg(case when place in ((places + 1) // 2, (places + 2) // 2) then decode_s end)
            as p50_step_s,
        max(case when place = (90 * places + 99) // 100 then decode_s end) as p90_step_s,
        max(case when place = (95 * places + 99) // 100 then decode_s end) as p95_step_s,
        max(case when place = (99 * places + 99) // 100 then decode_s end) as p99_step_s
    from ranked
    group by run_id, request
),

requests as (
    select
        run_id, request,
        min(case when step = 0 then start_ps end) as prefill_start_ps,
        max(case when step = 0 then end_ps end) as prefill_end_ps,
        max(case when steps_from_last = 1 then end_ps end) as last_end_ps,
        sum(case when step > 0 then 1 else 0 end) as decode_steps
    from steps
    group by run_id, request
),

directed as (
    select
        *,
        coalesce(prefill_end_ps < prefill_start_ps, false)
        or coalesce(last_end_ps < prefill_end_ps, false) as is_backward
    from requests
),

-- Where the trace has a prefill end before it begins, or the last step before the prefill, no time counts.
forward as (
    select
        run_id, request, prefill_start_ps, decode_steps, is_backward,
        case when not is_backward then prefill_end_ps end as prefill_end_ps,
        case when not is_backward then last_end_ps end as last_end_ps
    from directed
),

clocked as (
    select s.*, c.lead_group, c.later_ps
    from _step_clock_v1 as s
    left join _request_clock_v1 as c
        on c.run_id = s.run_id and c.request = s.request and c.clock_group = s.clock_group
),

opened as (
    select
        run_id, request,
        min(request_start_ps + later_ps) as request_start_ps,
        max(lead_group) as lead_group
    from clocked
    group by run_id, request
),

-- Ops of a request on clocks that lack its first marker, with which they cannot be compared.
elsewhere as (
    select run_id, request
    from clocked
    where end_ps is not null and later_ps is null
    group by run_id, request
),

marked as (
    select
        r.run_id, r.request, 'marker' as source, r.decode_steps, o.lead_group as clock_group,
        coalesce(o.request_start_ps, r.prefill_start_ps) as start_ps,
        r.last_end_ps as end_ps,
        cast(r.prefill_start_ps - o.request_start_ps as double) / 1e12 as queue_s,
        cast(r.prefill_end_ps - r.prefill_start_ps as double) / 1e12 as ttft_s,
        cast(r.prefill_end_ps - o.request_start_ps as double) / 1e12 as request_ttft_s,
        cast(r.last_end_ps - r.prefill_end_ps as double) / 1e12 / nullif(r.decode_steps, 0)
            as tpot_s,
        cast(r.last_end_ps - r.prefill_start_ps as double) / 1e12 as e2e_s,
        p.p50_step_s, p.p90_step_s, p.p95_step_s, p.p99_step_s,
        cast(null as double) as launch_period_s,
        cast(null as bigint) as launch_period_count,
        case
            when a.run_id is not null then 'the clocks of devices and hosts cannot be compared'
            when e.run_id is not null and (r.prefill_end_ps is null or r.last_end_ps is null)
                then 'the clocks of devices and hosts cannot be compared'
            when r.is_backward then 'the times of the steps run backwards in the trace'
            when r.prefill_start_ps is null then 'the trace lacks the start of the request'
            when r.prefill_end_ps is null then 'the trace lacks the ops of the prefill'
            when r.decode_steps = 0 then 'no decode step: there is no time between tokens'
            when r.last_end_ps is null then 'the trace lacks the ops of the last step'
        end as reason
    from forward as r
    left join percentiles as p on p.run_id = r.run_id and p.request = r.request
    left join opened as o on o.run_id = r.run_id and o.request = r.request
    left join elsewhere as e on e.run_id = r.run_id and e.request = r.request
    left join _ambiguous_run_v1 as a on a.run_id = r.run_id
),

runs_with_markers as (
    select run_id
    from phases
    where source = 'marker' and phase in ('prefill', 'decode', 'mixed', 'warmup')
    group by run_id
),

instances as (
    select
        l.run_id, l.program_id, l.launch_instance, d.clock_group,
        min(l.start_ps) as start_ps,
        max(l.start_ps + l.duration_ps) as end_ps
    from launches as l
    left join runs_with_markers as m on m.run_id = l.run_id
    left join _apart_clock_v1 as d on d.run_id = l.run_id and d.device_id = l.device_id
    where m.run_id is null
    group by l.run_id, l.program_id, l.launch_instance, d.clock_group
),

programs as (
    select
        run_id, program_id, clock_group,
        count(*) as executions,
        min(end_ps) as first_end_ps,
        max(end_ps) as last_end_ps,
        sum(end_ps - start_ps) as total_ps
    from instances
    group by run_id, program_id, clock_group
),

most_launched as (
    select
        *,
        row_number() over (
            partition by run_id order by executions desc, total_ps desc, program_id, clock_group
        ) as place
    from programs
),

unmarked as (
    select
        o.run_id,
        cast(null as bigint) as request,
        'module' as source,
        cast(null as bigint) as decode_steps,
        cast(null as varchar) as clock_group,
        cast(null as bigint) as start_ps,
        cast(null as bigint) as end_ps,
        cast(null as double) as queue_s,
        cast(null as double) as ttft_s,
        cast(null as double) as request_ttft_s,
        cast(null as double) as tpot_s,
        cast(null as double) as e2e_s,
        cast(null as double) as p50_step_s,
        cast(null as double) as p90_step_s,
        cast(null as double) as p95_step_s,
        cast(null as double) as p99_step_s,
        case
            when a.run_id is null
                then cast(o.last_end_ps - o.first_end_ps as double) / 1e12
                    / nullif(o.executions - 1, 0)
        end as launch_period_s,
        o.executions - 1 as launch_period_count,
        'no markers of requests in the trace' as reason
    from most_launched as o
    left join _ambiguous_run_v1 as a on a.run_id = o.run_id
    where o.place = 1
),

timed as (
    select * from marked
    union all
    select * from unmarked
)

select
    -- run
    t.run_id,
    -- request; NULL without markers
    t.request,
    -- marker or module
    t.source,
    -- group of clocks that start and end are times of (_request_clock_v1); NULL without markers
    t.clock_group,
    -- start of the request's own marker on the host, else of its prefill's
    t.start_ps,
    -- end of its last step over all devices
    t.end_ps,
    -- from the start of the request's own marker to that of its prefill; NULL without such a marker
    t.queue_s,
    -- time to first token, from the start of the prefill
    t.ttft_s,
    -- time to first token with the time in the queue; NULL without a marker of the request
    t.request_ttft_s,
    -- time per output token after the first
    t.tpot_s,
    -- from the start of the prefill to the end of the last step
    t.e2e_s,
    -- decode steps that TPOT is the mean of; NULL without markers
    cast(t.decode_steps as bigint) as decode_steps,
    -- batch size x output tokens / e2e
    cast(r.batch_size * r.output_tokens as double) / nullif(t.e2e_s, 0) as output_tokens_per_s,
    -- batch size / TPOT
    cast(r.batch_size as double) / nullif(t.tpot_s, 0) as decode_tokens_per_s,
    -- median time from decode step to decode step
    t.p50_step_s,
    -- 90th percentile of it
    t.p90_step_s,
    -- 95th percentile of it
    t.p95_step_s,
    -- 99th percentile of it
    t.p99_step_s,
    -- without markers: mean time from end to end of the most-launched program's launch instances
    t.launch_period_s,
    -- how many such periods it is the mean of
    cast(t.launch_period_count as bigint) as launch_period_count,
    -- why TTFT or TPOT is NULL; NULL where both are known
    t.reason,
    -- TTFT by the host's clock, mean over the run's requests
    r.measured_ttft_s,
    -- TPOT by the host's clock, mean over the run's requests
    r.measured_tpot_s
from timed as t
left join runs as r on r.run_id = t.run_id
