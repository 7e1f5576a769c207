-- one row per run and device for which it is not known when a request is open, though requests are marked
-- How far clocks are apart is ambiguous (_open_time_v1 then places markers and devices that may not belong
-- together), or the clocks that can be compared with the device's have no markers of their own.
with devices_seen as (
    select run_id, device_id from device_steps group by run_id, device_id
),

runs_marked as (
    select run_id from _open_time_v1 group by run_id
),

groups_marked as (
    select run_id, clock_group from _open_time_v1 group by run_id, clock_group
)

select
    -- run
    d.run_id,
    -- device
    d.device_id
from devices_seen as d
inner join runs_marked as m on m.run_id = d.run_id
left join _apart_clock_v1 as a on a.run_id = d.run_id and a.device_id = d.device_id
left join groups_marked as g
    on g.run_id = d.run_id and g.clock_group = coalesce(a.clock_group, '')
left join _ambiguous_run_v1 as b on b.run_id = d.run_id
where g.run_id is null or b.run_id is not null
