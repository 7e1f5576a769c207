-- one row per host, and per device, of a run whose clocks make several groups that cannot be compared
-- A group is the clocks that have one reference. A run whose clocks can all be compared has no rows.
with runs_apart as (
    select run_id
    from clocks
    group by run_id
    having min(reference) <> max(reference)
),

hosts as (
    select
        c.run_id, c.host,
        case when min(c.reference) = max(c.reference) then min(c.reference) end as clock_group
    from clocks as c
    inner join runs_apart as a on a.run_id = c.run_id
    group by c.run_id, c.host
),

devices_of as (
    select d.run_id, d.device_id, c.reference as clock_group
    from devices as d
    inner join clocks as c on c.run_id = d.run_id and c.clock = d.clock
    inner join runs_apart as a on a.run_id = d.run_id
),

members as (
    select run_id, host, cast(null as bigint) as device_id, clock_group
    from hosts
    union all
    select run_id, null, device_id, clock_group
    from devices_of
)

select
    -- run
    run_id,
    -- host; NULL in the row of a device
    host,
    -- device; NULL in the row of a host
    device_id,
    -- group: its reference; NULL of a host that has clocks of several, as of processes of one machine
    clock_group
from members
