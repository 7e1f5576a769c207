-- one row per run with devices, SparseCores left out
-- The devices that a run names, traced or not, and the chips that they are on.
select
    -- run
    d.run_id,
    -- devices
    count(*) as devices,
    -- devices that share a chip; NULL where it is not known of every device
    case when count(p.devices_per_chip) = count(*) then min(p.devices_per_chip) end
        as devices_per_chip,
    -- the identity of one of them was deduced: 1, else 0
    max(case when d.inferred or d.core = 'cpu' then 1 else 0 end) as inferred
from devices as d
left join hardware_peaks_v1 as p on p.run_id = d.run_id and p.device_id = d.device_id
where d.core is distinct from 'sparsecore'
group by d.run_id
