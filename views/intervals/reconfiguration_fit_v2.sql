-- one row per run, scope, transition and delay
-- Whether a network that takes `delay` to reconfigure could do so in the windows between two axes:
-- the share of windows (traffic_window, of every phase and scope) at least as long as the delay, and the
-- bytes of the bursts that follow them. Delays: 1 us, 10 us, 100 us, 1 ms and 10 ms.
with delays as (
    select cast(delay_ps as bigint) as delay_ps
    from (
        values (1000000), (10000000), (100000000), (1000000000), (10000000000)
    ) as lengths (delay_ps)
),

-- Windows by the longest delay that fits into each.
windows as (
    select
        line_key, from_axis_key, axis_key, bytes,
        case
            when start_ps - from_end_ps >= 10000000000 then 10000000000
            when start_ps - from_end_ps >= 1000000000 then 1000000000
            when start_ps - from_end_ps >= 100000000 then 100000000
            when start_ps - from_end_ps >= 10000000 then 10000000
            when start_ps - from_end_ps >= 1000000 then 1000000
            else 0
        end as longest_delay_ps
    from _burst_v2
    where from_axis_key is not null
),

totals as (
    select
        line_key, from_axis_key, axis_key, longest_delay_ps,
        count(*) as count,
        count(bytes) as known_count,
        sum(bytes) as bytes
    from windows
    group by line_key, from_axis_key, axis_key, longest_delay_ps
),

fits as (
    select
        t.line_key, t.from_axis_key, t.axis_key, d.delay_ps,
        sum(t.count) as count,
        sum(case when t.longest_delay_ps >= d.delay_ps then t.count else 0 end) as fitting_count,
        sum(case when t.longest_delay_ps >= d.delay_ps then t.count - t.known_count else 0 end)
            as unknown_count,
        sum(case when t.longest_delay_ps >= d.delay_ps then t.bytes else 0 end) as fitting_bytes,
        case when sum(t.known_count) = sum(t.count) then sum(t.bytes) end as next_bytes
    from totals as t
    cross join delays as d
    group by t.line_key, t.from_axis_key, t.axis_key, d.delay_ps
)

select
    -- run
    a.run_id,
    -- device, run, group or rail
    l.scope,
    -- axis of the earlier burst
    f.axis as from_axis,
    -- axis of the later burst
    a.axis as to_axis,
    -- time that reconfiguring takes
    w.delay_ps,
    -- windows
    cast(w.count as bigint) as count,
    -- windows at least as long as the delay
    cast(w.fitting_count as bigint) as fitting_count,
    -- share of windows at least as long as the delay
    cast(w.fitting_count as double) / nullif(cast(w.count as double), 0) as fit_ratio,
    -- bytes of the bursts after those windows, sent on the wire
    cast(case when w.unknown_count = 0 then w.fitting_bytes end as double) as fitting_bytes,
    -- bytes of the bursts after all windows
    cast(w.next_bytes as double) as next_bytes
from fits as w
inner join _line_v1 as l on l.line_key = w.line_key
inner join _axis_key_v1 as f on f.axis_key = w.from_axis_key
inner join _axis_key_v1 as a on a.axis_key = w.axis_key
