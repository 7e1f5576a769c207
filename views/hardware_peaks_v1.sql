-- one row per run and device
-- The peaks that ratios are taken against: the shipped table's, by the kind of device that the user
-- set, else by the trace's; where the table has no figures for the kind, the trace's own. A chip's
-- FLOP/s and HBM bandwidth are shared evenly by its devices; a link is a link, so its bandwidth is
-- not. Devices whose identity was deduced (virtual CPU devices) have none.
with named as (
    select
        d.*,
        case when s.device_kind is null then 'table' else 'setting' end as table_source,
        coalesce(s.device_kind, d.kind, r.device_kind) as chosen_kind
    from devices as d
    left join runs as r on r.run_id = d.run_id
    left join run_settings as s on s.run_id = d.run_id
),

joined as (
    select n.*, p.devices_per_chip, p.flops_per_s, p.hbm_bytes_per_s,
        p.ici_bytes_per_s, p.flops_source, p.bandwidth_source
    from named as n
    left join _chip_peaks_v1 as p on p.kind_name = lower(replace(n.chosen_kind, ' ', ''))
)

select
    -- run
    run_id,
    -- device
    device_id,
    -- kind of device that counts: as set, else as traced
    chosen_kind as device_kind,
    -- devices that share a chip; NULL where the kind is not in the shipped table
    devices_per_chip,
    -- peak FLOP/s of the device
    case
        when inferred then null
        when flops_per_s is null then peak_flops
        else flops_per_s / nullif(devices_per_chip, 0)
    end as peak_flops_per_s,
    -- peak HBM bandwidth of the device
    case
        when inferred then null
        when flops_per_s is null then peak_hbm_bytes_per_s
        else hbm_bytes_per_s / nullif(devices_per_chip, 0)
    end as peak_hbm_bytes_per_s,
    -- peak bandwidth of one ICI link of its chip, one way
    case
        when inferred then null
        when flops_per_s is null then peak_ici_bytes_per_s
        else ici_bytes_per_s
    end as peak_ici_bytes_per_s,
    -- setting (table, by the kind that was set), table or trace; NULL without a peak
    case
        when inferred then null
        when flops_per_s is not null then table_source
        when coalesce(peak_flops, peak_hbm_bytes_per_s, peak_ici_bytes_per_s) is not null then 'trace'
    end as peaks_source,
    -- source of the shipped FLOP/s
    case when inferred then null else flops_source end as flops_source,
    -- source of the shipped bandwidths
    case when inferred then null else bandwidth_source end as bandwidth_source,
    -- peak FLOP/s as ingested beside the trace
    peak_flops as ingested_flops_per_s,
    -- peak HBM bandwidth as ingested beside the trace
    peak_hbm_bytes_per_s as ingested_hbm_bytes_per_s
from joined
