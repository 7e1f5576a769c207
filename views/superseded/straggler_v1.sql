-- one row per run and traced device, SparseCores left out
-- How often and how far a device comes after its peers, over the instances of collectives in which
-- several devices were seen, of any kind and axis. An arrival is the start of the barrier before
-- the op, else the op's start. Lag: own arrival less the earliest; wait: the latest arrival less
-- its own. It enters last where no device arrives later and some device arrives earlier. Left out,
-- since their arrivals are not known: synchronous instances whose ends lie more than 1 us apart,
-- and instances across hosts with a clock that is not usable (clock_offset_v1).
with places as (
    -- A host by its first device: numbers are quicker to compare than names, which may be NULL.
    select
        d.run_id, d.device_id,
        min(d.device_id) over (partition by d.run_id, d.host) as host_key,
        case when not o.is_usable then 1 else 0 end as unusable
    from devices as d
    left join clock_offset_v1 as o on o.run_id = d.run_id and o.host = d.host
),

judged as (
    select
        c.run_id, c.instance,
        min(c.arrival_ps) as first_arrival_ps,
        max(c.arrival_ps) as last_arrival_ps
    from collectives as c
    inner join places as p on p.run_id = c.run_id and p.device_id = c.device_id
    where c.instance is not null and c.arrival_ps is not null
    group by c.run_id, c.instance
    having count(*) > 1
        and (
            max(case when c.is_async then 1 else 0 end) = 1
            or max(c.start_ps + c.duration_ps) - min(c.start_ps + c.duration_ps) <= 1000000
        )
        and (min(p.host_key) = max(p.host_key) or max(p.unusable) = 0)
),

arrivals as (
    select
        c.run_id, c.device_id,
        c.arrival_ps - j.first_arrival_ps as lag_ps,
        j.last_arrival_ps - c.arrival_ps as wait_ps
    from collectives as c
    inner join judged as j on j.run_id = c.run_id and j.instance = c.instance
    where c.arrival_ps is not null
),

summed as (
    select
        run_id, device_id,
        count(*) as instances,
        sum(case when lag_ps > 0 and wait_ps = 0 then 1 else 0 end) as last_count,
        avg(lag_ps) as mean_lag_ps,
        max(lag_ps) as max_lag_ps,
        avg(wait_ps) as mean_wait_ps
    from arrivals
    group by run_id, device_id
)

select
    -- run
    d.run_id,
    -- device
    d.device_id,
    -- host; NULL where it is not known
    d.host,
    -- the device is virtual, or its identity deduced
    d.inferred or coalesce(d.core, '') = 'cpu' as inferred,
    -- instances that it entered with other devices
    cast(coalesce(s.instances, 0) as bigint) as instances,
    -- of these, those that it entered last
    cast(coalesce(s.last_count, 0) as bigint) as last_count,
    -- share of its instances that it entered last
    cast(s.last_count as double) / nullif(s.instances, 0) as last_ratio,
    -- how much later than the first it arrives, mean
    s.mean_lag_ps,
    -- how much later than the first it arrives, most
    cast(s.max_lag_ps as bigint) as max_lag_ps,
    -- how much earlier than the last it arrives, mean
    s.mean_wait_ps
from devices as d
left join summed as s on s.run_id = d.run_id and s.device_id = d.device_id
where d.traced and d.core is distinct from 'sparsecore'
