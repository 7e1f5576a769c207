-- one row per run and traced device, SparseCores left out
-- How often and how far a device comes after its peers: over the instances of collectives in which
-- several devices were seen, of any kind and axis. An arrival is the start of the barrier before
-- the op, else the op's start. Lag: own arrival less the earliest; wait: the latest arrival less its
-- own. It enters last where nobody arrives later and somebody arrives earlier. Left out, since what
-- they say of arrivals is not known: synchronous instances whose ends lie more than 1 us apart, and
-- instances across hosts one of whose clocks is not usable (clock_offset_v1).
with judged as (
    select
        m.run_id, m.instance,
        min(m.all_first_arrival_ps) as first_arrival_ps,
        max(m.all_last_arrival_ps) as last_arrival_ps
    from _meeting_v1 as m
    left join clock_offset_v1 as o
        on o.run_id = m.run_id and o.host = m.host and m.hosts > 1 and not o.is_usable
    where m.is_async or m.ends_apart_ps <= 1000000
    group by m.run_id, m.instance
    having count(o.run_id) = 0
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
    -- the device's identity was deduced
    d.inferred,
    -- instances that it entered with others
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
