-- one row per run and clock of a trace file
-- How far a clock was from its reference, as ingest measured it from the ends of synchronous
-- collectives, which all members leave together, and subtracted it in all tables (table clocks).
-- spread_ps is the uncertainty that remains. Where it exceeds the median skew of the instances that
-- the clock shares with other clocks, skews across these clocks mean nothing: is_usable is false, as it is
-- where several offsets fit. A median of two is the lower and half of the difference.
with devices_of as (
    select run_id, clock, count(*) as devices
    from devices
    where traced
    group by run_id, clock
),

placed as (
    select
        run_id, clock, skew_ps,
        row_number() over (partition by run_id, clock order by skew_ps) as place,
        count(*) over (partition by run_id, clock) as places
    from _meeting_v2
    where not is_async
        and kind in ('all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all')
),

middles as (
    select
        run_id, clock,
        max(places) as instances,
        max(case when place = (places + 1) // 2 then skew_ps end) as lower_ps,
        max(case when place = places // 2 + 1 then skew_ps end) as upper_ps
    from placed
    group by run_id, clock
),

measured as (
    select
        c.*,
        d.devices,
        coalesce(m.instances, 0) as instances,
        m.lower_ps + (m.upper_ps - m.lower_ps) // 2 as median_skew_ps
    from clocks as c
    left join devices_of as d on d.run_id = c.run_id and d.clock = c.clock
    left join middles as m on m.run_id = c.run_id and m.clock = c.clock
)

select
    -- run
    run_id,
    -- clock: the host where it has one, else the file without its ending
    clock,
    -- host
    host,
    -- its traced devices
    cast(coalesce(devices, 0) as bigint) as devices,
    -- clock that it was measured against; itself on a reference
    reference,
    -- reference, aligned, ambiguous (several offsets fit) or unconnected (nothing shared)
    state,
    -- how launches were matched: sequence number, step marker, time or setting; NULL: they were not
    evidence,
    -- how much later it was at time zero; 0 on a reference, NULL where it could not be measured
    case when state in ('reference', 'aligned') then clock_offset_ps end as offset_ps,
    -- microseconds that it gained a second; NULL where it could not be measured, for which fewer than
    -- three shared ends are too few
    case when state = 'reference' or (state = 'aligned' and pairs >= 3) then drift_ppm end
        as drift_ppm,
    -- 5th to 95th percentile of what the ends of both clocks differ by, less offset and drift
    spread_ps,
    -- instances of synchronous collectives that its devices share with those of another clock
    cast(instances as bigint) as instances,
    -- latest less earliest arrival of these instances, offsets subtracted, median
    cast(median_skew_ps as bigint) as median_skew_ps,
    -- skews across this clock mean something; NULL where the spread or the skew is not known, and
    -- where no instance is shared with the reference
    case
        when state = 'reference' then true
        when state = 'aligned' then spread_ps <= median_skew_ps
        when state = 'ambiguous' then false
    end as is_usable
from measured
