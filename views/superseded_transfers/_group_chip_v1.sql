-- one row per collective instruction and replica group
-- Whether a group's transfers leave the chip, and the peak of the links that they then use.
select
    -- run
    g.run_id,
    -- processes whose programs share device numbers
    g.world,
    -- compiled program
    g.program_id,
    -- name of the HLO instruction
    g.op,
    -- which group of the instruction
    g.group_index,
    -- 1: all members on one chip, 0: on several; NULL: not known
    case
        when max(p.devices_per_chip) = 1 and count(*) > 1 then 0
        when min(d.chip_id) < max(d.chip_id) then 0
        when count(d.chip_id) = count(*) then 1
    end as on_one_chip,
    -- peak bandwidth of one ICI link, one way
    min(p.peak_ici_bytes_per_s) as peak_ici_bytes_per_s
from replica_groups as g
left join devices as d on d.run_id = g.run_id and d.device_id = g.device_id
left join hardware_peaks_v1 as p on p.run_id = g.run_id and p.device_id = g.device_id
group by g.run_id, g.world, g.program_id, g.op, g.group_index
