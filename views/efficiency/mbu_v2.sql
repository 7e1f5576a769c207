-- one row per run and phase
-- Decode only: bytes of weights, keys and values that a step reads / (TPOT x peak HBM bandwidth of
-- all devices). Each part of the batch that axes dp, fsdp and ep make reads the weights once, the
-- experts once for all parts along ep. Of an embedding that the head is not tied to, only the rows of
-- its tokens are read; of a layer's experts at most min(experts, batch x experts a token) of the
-- sequences that dp and fsdp leave together, an upper bound where tokens share experts. Keys and
-- values of each sequence's context are read once: p + k tokens in decode step k, on average p +
-- (steps + 1) / 2. TPOT and decode steps are medians over the marked requests, the means of the two
-- middle ones of an even number. Virtual devices have no MBU; mbu_problem states what else is lacking.
with timed as (
    select run_id
    from _marked_latency_v1
    group by run_id
),

peaks as (
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

ranked as (
    select
        run_id, tpot_s, decode_steps,
        row_number() over (partition by run_id order by tpot_s, request) as place,
        count(*) over (partition by run_id) as places
    from _marked_latency_v1
    where tpot_s is not null
),

medians as (
    select
        run_id,
        max(places) as tpot_count,
        avg(tpot_s) as tpot_s,
        avg(cast(decode_steps as double)) as decode_steps
    from ranked
    where place >= (places + 1) // 2 and place <= places // 2 + 1
    group by run_id
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
        * max(case when axis = 'fsdp' then size else 1 end) as copies,
        max(case when axis = 'ep' then size else 1 end) as expert_parts
    from axes
    group by run_id
),

sized as (
    select
        r.run_id,
        m.tpot_count, m.tpot_s, m.decode_steps,
        p.peak_hbm_bytes_per_s,
        c.copies, c.expert_parts,
        r.batch_size, r.prompt_tokens, r.kv_bytes_per_token, r.weight_bytes, r.hidden_size,
        r.lookup_weights, r.expert_weights, r.experts, r.experts_per_token,
        case when r.dtype = 'float32' then 4 when r.dtype = 'bfloat16' then 2 end as weight_size,
        cast(r.batch_size as double) / nullif(c.copies, 0) * r.experts_per_token
        / nullif(r.experts, 0) as choices_ratio
    from runs as r
    inner join timed as l on l.run_id = r.run_id
    left join medians as m on m.run_id = r.run_id
    left join peaks as p on p.run_id = r.run_id
    left join parts as c on c.run_id = r.run_id
),

moved as (
    select
        *,
        -- all but the experts and the embedding, in each part; rows of each sequence's token; experts
        (cast(weight_bytes as double) - cast(weight_size as double) * (lookup_weights + expert_weights))
        * copies * expert_parts
        + weight_size * case
            when lookup_weights = 0 then cast(0 as double)
            else cast(batch_size as double) * hidden_size
        end
        + cast(weight_size as double) * copies * case
            when expert_weights = 0 then 0
            when choices_ratio < 1 then expert_weights * choices_ratio
            when choices_ratio >= 1 then expert_weights
        end
            as weights_read_bytes,
        cast(batch_size as double) * kv_bytes_per_token * (prompt_tokens + (decode_steps + 1) / 2)
            as kv_read_bytes
    from sized
)

select
    -- run
    run_id,
    -- decode
    'decode' as phase,
    -- requests that TPOT is the median of
    cast(coalesce(tpot_count, 0) as bigint) as tpot_count,
    -- time per output token
    tpot_s,
    -- bytes of weights that all devices read in a step
    weights_read_bytes as weight_bytes,
    -- bytes of keys and values that all devices read in a step, on average
    kv_read_bytes as kv_bytes,
    -- HBM bandwidth of all devices
    peak_hbm_bytes_per_s,
    -- weight and KV bytes / (TPOT x peak)
    (weights_read_bytes + kv_read_bytes) / nullif(tpot_s * peak_hbm_bytes_per_s, 0) as mbu_ratio,
    -- tokens may share experts, so that fewer are read: mbu is an upper bound
    expert_weights > 0 and batch_size > copies as is_bound,
    -- why mbu is not known; NULL where it is
    case
        when weight_bytes is null or kv_bytes_per_token is null
            then 'no manifest states the bytes of weights, keys and values'
        when copies is null then 'no mesh is known'
        when weights_read_bytes is null
            then 'the experts, the embedding or the type of the weights are not known'
        when tpot_s is null then 'no request has a time per output token'
        when peak_hbm_bytes_per_s is null then 'the peak HBM bandwidth of a device is not known'
        when kv_read_bytes is null then 'the batch or its tokens are not known'
    end as mbu_problem
from moved
