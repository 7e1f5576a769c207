-- one row per run, instance and host of a collective that traced devices of several hosts took part in
-- When the host's devices arrive and leave. Devices whose arrival is not known do not count.
with places as (
    -- A host by its first device: numbers are quicker to compare than names, which may be NULL.
    select
        run_id, device_id, host,
        min(device_id) over (partition by run_id, host) as host_key
    from devices
),

-- Few instances, if any, are of several hosts: the others are not looked at again.
apart as (
    select c.run_id, c.instance
    from collectives as c
    inner join places as p on p.run_id = c.run_id and p.device_id = c.device_id
    where c.instance is not null and c.arrival_ps is not null
    group by c.run_id, c.instance
    having min(p.host_key) < max(p.host_key)
)

select
    -- run
    c.run_id,
    -- number of the instance within the run
    c.instance,
    -- host; NULL where it is not known
    p.host,
    -- kind of the collective
    min(c.kind) as kind,
    -- a start/done pair
    max(case when c.is_async then 1 else 0 end) = 1 as is_async,
    -- earliest arrival of the host's devices
    min(c.arrival_ps) as first_arrival_ps,
    -- latest arrival of the host's devices
    max(c.arrival_ps) as last_arrival_ps,
    -- latest end of the host's devices
    max(c.start_ps + c.duration_ps) as last_end_ps
from collectives as c
inner join apart as a on a.run_id = c.run_id and a.instance = c.instance
inner join places as p on p.run_id = c.run_id and p.device_id = c.device_id
where c.arrival_ps is not null
group by c.run_id, c.instance, p.host
