-- one row per run and phase
-- Decode alone: (weight + KV bytes of a step) / (TPOT x peak HBM bandwidth of all devices). Each
-- step reads every weight once in each part of the batch that axes dp and fsdp make, and the keys
-- and values of each sequence's context, once: p + k tokens in decode step k, on average p + (steps
-- + 1) / 2. TPOT is the median over requests (the value of row ceil(n / 2)). Virtual devices, and
-- runs whose manifest or mesh is not known, have no MBU.
with peaks as (
    select
        d.run_id,
        case
            when count(p.peak_hbm_bytes_per_s) = count(*) then sum(p.peak_hbm_bytes_per_s)
        end as peak_hbm_bytes_per_s
    from devices as d
    left join hardware_peaks_v1 as p on p.run_id = d.run_id and p.device_id = d.device_id
    where d.core is distinct from 'sparsecore'
    group by d.run_id
),

axes as (
    select run_id, axis, max(size) as size
    from run_mesh_v1
    group by run_id, axis
),

parts as (
    select
        run_id,
        max(case when axis = 'dp' then size else 1 end)
        * max(case when axis = 'fsdp' then size else 1 end) as copies
    from axes
    group by run_id
),

moved as (
    select
        r.run_id,
        l.tpot_count,
        l.tpot_s,
        p.peak_hbm_bytes_per_s,
        cast(r.weight_bytes as double) * c.copies as weight_bytes,
        cast(r.batch_size as double) * r.kv_bytes_per_token
        * (r.prompt_tokens + cast(l.decode_steps + 1 as double) / 2) as kv_bytes,
        r.active_parameters < r.parameters as is_bound
    from runs as r
    inner join _run_latency_v1 as l on l.run_id = r.run_id
    left join peaks as p on p.run_id = r.run_id
    left join parts as c on c.run_id = r.run_id
)

select
    -- run
    run_id,
    -- decode
    'decode' as phase,
    -- requests that TPOT is the median of
    tpot_count,
    -- time per output token
    tpot_s,
    -- bytes of weights that all devices read in a step
    weight_bytes,
    -- bytes of keys and values that all devices read in a step, on average
    kv_bytes,
    -- HBM bandwidth of all devices
    peak_hbm_bytes_per_s,
    -- weight and KV bytes / (TPOT x peak)
    (weight_bytes + kv_bytes) / nullif(tpot_s * peak_hbm_bytes_per_s, 0) as mbu_ratio,
    -- a step may not reach each expert, and so not read every weight: mbu is an upper bound
    is_bound
from moved
