-- one row per run, instance and host of a collective that traced devices of several hosts took part in
-- Arrival and end of the host's devices. Devices whose arrival is not known do not count.
with places as (
    -- A host by its first device: numbers are quicker to compare than names, which may be NULL.
    select
        run_id, device_id, host,
        min(device_id) over (partition by run_id, host) as host_key
    from devices
),

-- The large tables are read once, and joined with devices alone: with the instances as well, DuckDB
-- may first pair every instance of a run with every device.
seen as (
    select
        c.run_id, c.instance, p.host_key,
        min(p.host) as host,
        min(c.kind) as kind,
        max(case when c.is_async then 1 else 0 end) as async,
        min(c.arrival_ps) as first_arrival_ps,
        max(c.arrival_ps) as last_arrival_ps,
        max(c.start_ps + c.duration_ps) as last_end_ps
    from collectives as c
    inner join places as p on p.run_id = c.run_id and p.device_id = c.device_id
    where c.instance is not null and c.arrival_ps is not null
    group by c.run_id, c.instance, p.host_key
),

-- Few instances span several hosts.
apart as (
    select run_id, instance
    from seen
    group by run_id, instance
    having count(*) > 1
)

select
    -- run
    s.run_id,
    -- number of the instance within the run
    s.instance,
    -- host; NULL where it is not known
    s.host,
    -- kind of the collective
    s.kind,
    -- a start/done pair
    s.async = 1 as is_async,
    -- earliest arrival of the host's devices
    s.first_arrival_ps,
    -- latest arrival of the host's devices
    s.last_arrival_ps,
    -- latest end of the host's devices
    s.last_end_ps
from seen as s
inner join apart as a on a.run_id = s.run_id and a.instance = s.instance
