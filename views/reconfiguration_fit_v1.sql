-- one row per run, scope, transition and delay
-- Whether a network that takes `delay` to be set up anew could be, in the windows between two axes:
-- the share of windows (traffic_window, of every phase) at least as long as the delay, and the bytes
-- of the bursts that follow them. Delays: 1 us, 10 us, 100 us, 1 ms and 10 ms.
with delays as (
    select cast(delay_ps as bigint) as delay_ps
    from (
        values (1000000), (10000000), (100000000), (1000000000), (10000000000)
    ) as lengths (delay_ps)
),

fits as (
    select
        w.run_id, w.scope, w.from_axis, w.to_axis, d.delay_ps,
        count(*) as count,
        sum(case when w.window_ps >= d.delay_ps then 1 else 0 end) as fitting_count,
        sum(case when w.window_ps >= d.delay_ps and w.next_bytes is null then 1 else 0 end)
            as unknown_count,
        sum(case when w.window_ps >= d.delay_ps then w.next_bytes else 0 end) as fitting_bytes,
        case when count(w.next_bytes) = count(*) then sum(w.next_bytes) end as next_bytes
    from traffic_window_v1 as w
    cross join delays as d
    group by w.run_id, w.scope, w.from_axis, w.to_axis, d.delay_ps
)

select
    -- run
    run_id,
    -- device or run
    scope,
    -- axis of the earlier burst
    from_axis,
    -- axis of the later burst
    to_axis,
    -- time that setting up takes
    delay_ps,
    -- windows
    cast(count as bigint) as count,
    -- windows at least as long as the delay
    cast(fitting_count as bigint) as fitting_count,
    -- share of windows at least as long as the delay
    cast(fitting_count as double) / nullif(count, 0) as fit_ratio,
    -- bytes of the bursts after those windows, sent on the wire
    cast(case when unknown_count = 0 then fitting_bytes end as double) as fitting_bytes,
    -- bytes of the bursts after all windows
    cast(next_bytes as double) as next_bytes
from fits
