-- one row per run, instance and clock of a collective that traced devices of several clocks took part in
-- Arrivals of the clock's devices. Devices whose arrival or clock is not known do not count.
with places as (
    -- A clock by its first device: numbers are quicker to compare than names.
    select
        run_id, device_id, clock,
        min(device_id) over (partition by run_id, clock) as clock_key
    from devices
    where clock is not null
),

-- The large tables are read once, and joined with devices alone: with the instances as well, DuckDB
-- may first pair every instance of a run with every device.
seen as (
    select
        c.run_id, c.instance, p.clock_key,
        min(p.clock) as clock,
        min(c.kind) as kind,
        max(case when c.is_async then 1 else 0 end) as async,
        min(c.arrival_ps) as first_arrival_ps,
        max(c.arrival_ps) as last_arrival_ps
    from collectives as c
    inner join places as p on p.run_id = c.run_id and p.device_id = c.device_id
    where c.instance is not null and c.arrival_ps is not null
    group by c.run_id, c.instance, p.clock_key
),

-- Few instances span several clocks.
apart as (
    select
        run_id, instance,
        min(first_arrival_ps) as first_arrival_ps,
        max(last_arrival_ps) as last_arrival_ps
    from seen
    group by run_id, instance
    having count(*) > 1
)

select
    -- run
    s.run_id,
    -- number of the instance within the run
    s.instance,
    -- clock, a row of the table clocks
    s.clock,
    -- kind of the collective
    s.kind,
    -- a start/done pair
    s.async = 1 as is_async,
    -- latest less earliest arrival over all clocks
    cast(a.last_arrival_ps - a.first_arrival_ps as bigint) as skew_ps
from seen as s
inner join apart as a on a.run_id = s.run_id and a.instance = s.instance
