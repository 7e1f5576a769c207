-- one row per run and device
-- The peaks that ratios are taken against. The source of each number: the number that the user set;
-- else the shipped table, by the kind of device that the user set, else by the trace's, else (where
-- that says TPU and no more) by the workload card's; else the trace's own number. A chip's FLOP/s
-- and HBM bandwidth are shared evenly by its devices (a chip of a kind that is not in the shipped
-- table is taken to be one device); a link's bandwidth is not shared. Devices whose identity was
-- deduced (virtual CPU devices) have no peaks, and SparseCores only the link's: the chip's figures
-- are those of its TensorCores.
with named as (
    select
        d.*,
        s.chip_flops_per_s, s.chip_hbm_bytes_per_s, s.link_bytes_per_s,
        coalesce(s.device_kind, nullif(d.kind, 'TPU'), r.device_kind, d.kind) as chosen_kind,
        case when s.device_kind is null then 'table' else 'setting' end as table_source,
        coalesce(d.core, 'tensorcore') <> 'sparsecore' as has_chip_peaks
    from devices as d
    left join runs as r on r.run_id = d.run_id
    left join run_settings as s on s.run_id = d.run_id
    where (d.inferred or coalesce(d.core, '') = 'cpu') is distinct from true
),

joined as (
    select
        n.*, p.devices_per_chip, p.flops_per_s, p.hbm_bytes_per_s, p.ici_bytes_per_s,
        p.flops_source, p.hbm_source, p.ici_source
    from named as n
    left join _chip_peaks_v1 as p on p.kind_name = lower(replace(n.chosen_kind, ' ', ''))
),

peaks as (
    select
        run_id, device_id, devices_per_chip, table_source,
        case
            when has_chip_peaks
                then coalesce(
                    coalesce(chip_flops_per_s, flops_per_s)
                    / nullif(coalesce(devices_per_chip, 1), 0), peak_flops
                )
        end as peak_flops_per_s,
        case
            when has_chip_peaks
                then coalesce(
                    coalesce(chip_hbm_bytes_per_s, hbm_bytes_per_s)
                    / nullif(coalesce(devices_per_chip, 1), 0), peak_hbm_bytes_per_s
                )
        end as peak_hbm_bytes_per_s,
        coalesce(link_bytes_per_s, ici_bytes_per_s, peak_ici_bytes_per_s) as peak_ici_bytes_per_s,
        coalesce(chip_flops_per_s, chip_hbm_bytes_per_s, link_bytes_per_s) is not null as was_set,
        case
            when chip_flops_per_s is not null then 'set by the user'
            else coalesce(flops_source, case when peak_flops is not null then 'the trace' end)
        end as flops_source,
        case
            when chip_hbm_bytes_per_s is not null then 'set by the user'
            else coalesce(hbm_source, case when peak_hbm_bytes_per_s is not null then 'the trace' end)
        end as hbm_source,
        case
            when link_bytes_per_s is not null then 'set by the user'
            else coalesce(ici_source, case when peak_ici_bytes_per_s is not null then 'the trace' end)
        end as ici_source,
        flops_per_s is not null as in_table
    from joined
)

select
    -- run
    d.run_id,
    -- device
    d.device_id,
    -- kind of device: as set, else as traced
    coalesce(s.device_kind, d.kind, r.device_kind) as device_kind,
    -- devices that share a chip; NULL where the kind is not in the shipped table
    p.devices_per_chip,
    -- peak bf16 FLOP/s of the device
    p.peak_flops_per_s,
    -- peak HBM bandwidth of the device
    p.peak_hbm_bytes_per_s,
    -- peak bandwidth of one ICI link of its chip, one way
    p.peak_ici_bytes_per_s,
    -- setting (a number, or the kind, was set), table or trace; NULL without a peak
    case
        when p.was_set then 'setting'
        when p.in_table then p.table_source
        when coalesce(p.peak_flops_per_s, p.peak_hbm_bytes_per_s, p.peak_ici_bytes_per_s) is not null
            then 'trace'
    end as peaks_source,
    -- source of the FLOP/s
    case when p.peak_flops_per_s is not null then p.flops_source end as flops_source,
    -- source of the HBM bandwidth
    case when p.peak_hbm_bytes_per_s is not null then p.hbm_source end as hbm_source,
    -- source of the link's bandwidth
    case when p.peak_ici_bytes_per_s is not null then p.ici_source end as ici_source,
    -- peak FLOP/s of the device by the trace
    d.peak_flops as ingested_flops_per_s,
    -- peak HBM bandwidth of the device by the trace
    d.peak_hbm_bytes_per_s as ingested_hbm_bytes_per_s
from devices as d
left join runs as r on r.run_id = d.run_id
left join run_settings as s on s.run_id = d.run_id
left join peaks as p on p.run_id = d.run_id and p.device_id = d.device_id
