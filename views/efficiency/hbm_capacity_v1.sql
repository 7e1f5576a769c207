-- one row per run on chips of the shipped table
-- The HBM of a device, by Google Cloud's page on each TPU: a chip's GiB in bytes, shared evenly by its
-- devices. The kind is that of hardware_peaks: a user's setting, else the run's.
with capacities as (
    select generation, capacity_bytes
    from (
        values
        ('v2', 1.7179869184e10), ('v3', 3.4359738368e10), ('v4', 3.4359738368e10),
        ('v5e', 1.7179869184e10), ('v5p', 1.0200547328e11), ('v6e', 3.4359738368e10),
        ('7x', 2.06158430208e11)
    ) as rows_of (generation, capacity_bytes)
)

select
    -- run
    p.run_id,
    -- HBM of a device; the least where kinds differ
    min(cast(c.capacity_bytes as bigint) // nullif(k.devices_per_chip, 0)) as device_bytes
from hardware_peaks_v1 as p
inner join _chip_peaks_v1 as k on k.kind_name = lower(replace(p.device_kind, ' ', ''))
inner join capacities as c on c.generation = k.generation
group by p.run_id
