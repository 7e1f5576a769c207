-- one row per run, instance and host of a collective that several traced devices took part in
-- When the host's devices arrive and leave, beside when all of them do. Devices whose arrival is not
-- known do not count.
with seen as (
    select
        c.run_id, c.instance, d.host,
        min(c.kind) as kind,
        max(case when c.is_async then 1 else 0 end) as is_async,
        count(*) as participants,
        min(c.arrival_ps) as first_arrival_ps,
        max(c.arrival_ps) as last_arrival_ps,
        min(c.start_ps + c.duration_ps) as first_end_ps,
        max(c.start_ps + c.duration_ps) as last_end_ps
    from collectives as c
    inner join devices as d on d.run_id = c.run_id and d.device_id = c.device_id
    where c.instance is not null and c.arrival_ps is not null
    group by c.run_id, c.instance, d.host
),

together as (
    select
        *,
        sum(participants) over (partition by run_id, instance) as all_participants,
        count(*) over (partition by run_id, instance) as hosts,
        min(first_arrival_ps) over (partition by run_id, instance) as all_first_arrival_ps,
        max(last_arrival_ps) over (partition by run_id, instance) as all_last_arrival_ps,
        min(first_end_ps) over (partition by run_id, instance) as all_first_end_ps,
        max(last_end_ps) over (partition by run_id, instance) as all_last_end_ps
    from seen
)

select
    -- run
    run_id,
    -- number of the instance within the run
    instance,
    -- host; NULL where it is not known
    host,
    -- kind of the collective
    kind,
    -- hosts whose devices took part
    cast(hosts as bigint) as hosts,
    -- a start/done pair
    is_async = 1 as is_async,
    -- earliest arrival of the host's devices
    first_arrival_ps,
    -- latest arrival of the host's devices
    last_arrival_ps,
    -- latest end of the host's devices
    last_end_ps,
    -- earliest arrival of all devices
    all_first_arrival_ps,
    -- latest arrival of all devices
    all_last_arrival_ps,
    -- from the first device's end to the last one's
    all_last_end_ps - all_first_end_ps as ends_apart_ps
from together
where all_participants > 1
