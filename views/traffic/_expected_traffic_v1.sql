-- one row per run, phase, axis and kind of collective that is expected, measured or compiled
-- expected_traffic without its last step, which has the definitions: the sums of a measured run over
-- its passes, and of a compiled run over one prefill and one decode step on each device.
with axes as (
    select
        run_id,
        max(case when axis = 'dp' then size else 1 end) as dp,
        max(case when axis = 'ep' then size else 1 end) as ep,
        max(case when axis = 'fsdp' then size else 1 end) as fsdp,
        max(case when axis = 'pp' then size else 1 end) as pp,
        max(case when axis = 'tp' then size else 1 end) as tp,
        max(case when axis = 'sp' then size else 1 end) as sp,
        max(
            case when size > 1 and axis not in ('dp', 'ep', 'fsdp', 'pp', 'tp', 'sp') then axis end
        ) as other_axis
    from _mesh_axis_v1
    group by run_id
),

cores as (
    select run_id, min(core) as core, max(core) as last_core
    from devices
    group by run_id
),

-- Why a whole run has no expectation; only a pipeline divides by microbatches.
judged as (
    select
        r.run_id, r.dtype, r.layers, r.hidden_size, r.vocab_size, r.prompt_tokens, r.expert_layers,
        r.experts, r.experts_per_token, r.capacity_factor, r.stage_layers, r.tensor_weights,
        r.whole_weights, r.expert_weights, r.weight_matrices,
        a.ep, a.fsdp, a.pp, a.tp, a.sp,
        a.tp * a.sp as parts,
        r.batch_size // nullif(a.dp * a.ep * a.fsdp, 0) as sequences,
        case when a.pp > 1 then r.microbatches else 1 end as microbatches,
        case when c.core = 'cpu' and c.last_core = 'cpu' then 1 else 0 end as is_cpu,
        case
            when r.dtype in ('float32', 'f32') then 4
            when r.dtype in ('bfloat16', 'bf16', 'float16', 'f16') then 2
        end as element_bytes,
        case
            when s.mesh_problem is not null then s.mesh_problem
            when a.other_axis is not null
                then concat('what axis ', a.other_axis, ' of the mesh splits is not known')
            when a.tp > 1 and a.sp > 1 then 'tp and sp split the same weights'
            when r.layers is null or r.hidden_size is null or r.vocab_size is null
                then 'no manifest tells the model''s layers, hidden size and vocabulary'
            when r.batch_size is null or r.prompt_tokens is null
                then 'no manifest tells the batch size and the length of prompts'
            when r.batch_size % nullif(a.dp * a.ep * a.fsdp, 0) <> 0
                then 'dp, ep and fsdp do not divide the batch'
            when a.pp > 1 and (r.stage_layers is null or r.microbatches is null)
                then 'no manifest tells the layers of a stage and the microbatches'
            when a.pp > 1
                and r.batch_size // nullif(a.dp * a.ep * a.fsdp, 0) % nullif(r.microbatches, 0) <> 0
                then 'microbatches do not divide a device''s sequences'
        end as problem
    from runs as r
    inner join _mesh_state_v1 as s on s.run_id = r.run_id
    left join axes as a on a.run_id = r.run_id
    left join cores as c on c.run_id = r.run_id
),

-- Doubles hold the products of whole numbers exactly up to 2^53, and never overflow.
shaped as (
    select
        *,
        cast(microbatches + pp - 1 as double) as ticks,
        cast(sequences as double) / nullif(microbatches, 0) as tick_sequences,
        cast(case when pp > 1 then stage_layers else 0 end as double) as tick_layers,
        cast(layers - case when pp > 1 then pp * stage_layers else 0 end as double) as lead_layers
    from judged
    where problem is null
),

-- A pass: a step of a device with a launch, or, where launches are not known, with a collective.
device_steps as (
    select
        run_id, device_id, phase, request, step,
        case when step = 0 then 1 else 0 end as is_prefill
    from launches
    where phase in ('prefill', 'decode', 'warmup') and step is not null
    union
    select
        run_id, device_id, phase, request, step,
        case when step = 0 then 1 else 0 end
    from collectives
    where phase in ('prefill', 'decode', 'warmup') and step is not null
),

passes as (
    select
        p.run_id, p.phase, p.is_prefill,
        cast(count(*) as double) as passes
    from device_steps as p
    left join devices as d on d.run_id = p.run_id and d.device_id = p.device_id
    where d.core is distinct from 'sparsecore'
    group by p.run_id, p.phase, p.is_prefill
    union all
    -- a compiled run has one pass of each of its programs, on every device
    select
        p.run_id, p.phase, case when p.phase = 'prefill' then 1 else 0 end,
        cast(count(*) as double)
    from programs as p
    inner join devices as d on d.run_id = p.run_id and d.core is distinct from 'sparsecore'
    where p.source = 'compiled'
    group by p.run_id, p.phase
),

phase_passes as (
    select run_id, phase, sum(passes) as passes
    from passes
    group by run_id, phase
),

sized as (
    select
        s.*,
        p.phase, p.passes, p.is_prefill,
        case when p.is_prefill = 1 then cast(s.prompt_tokens as double) else 1 end as tokens,
        case when p.is_prefill = 1 and s.sp > 1 then 1 else 0 end as is_split
    from shaped as s
    inner join passes as p on p.run_id = s.run_id
),

-- Blocks: what follows the embedding, attention and MLP of each layer. Places: of an expert for the
-- rows of a microbatch, rounded up below.
counted as (
    select
        *,
        1 + 2 * (lead_layers + ticks * tick_layers) as blocks,
        tokens * hidden_size * (
            sequences + 2 * (lead_layers * sequences + ticks * tick_layers * tick_sequences)
        ) as block_elements,
        tick_sequences * tokens as tick_rows,
        tick_sequences * tokens * experts_per_token / nullif(experts, 0) * capacity_factor as places,
        case
            when pp = 1 then cast(expert_layers as double)
            -- The stages must hold all of them, and nothing else.
            when expert_layers = pp * stage_layers
                then ticks * cast(expert_layers as double) / nullif(pp, 0)
        end as dispatches
    from sized
),

moves as (
    select
        run_id, phase, passes, case when sp > 1 then 'sp' else 'tp' end as axis,
        case when is_split = 1 then 'reduce-scatter' else 'all-reduce' end as kind,
        blocks as moves,
        block_elements as elements,
        cast(null as varchar) as problem
    from counted
    where parts > 1
    union all
    select
        run_id, phase, passes, case when sp > 1 then 'sp' else 'tp' end, 'all-gather',
        1 + is_split * blocks,
        cast(sequences as double) * vocab_size + is_split * block_elements,
        cast(null as varchar)
    from counted
    where parts > 1
    union all
    select
        run_id, phase, passes, 'ep', 'all-to-all',
        2 * dispatches,
        2 * dispatches * experts * hidden_size * least(
            case when round(places) < places then round(places) + 1 else round(places) end,
            tick_rows
        ),
        'no manifest tells the layers with experts, their number and their capacity'
    from counted
    where ep > 1 and expert_layers is distinct from 0
    union all
    select
        run_id, phase, passes, 'fsdp', 'all-gather',
        case when pp = 1 then cast(weight_matrices as double) end,
        case
            when pp = 1
                then cast(tensor_weights as double) / nullif(parts, 0) + whole_weights
                + cast(expert_weights as double) / nullif(ep * parts, 0)
        end,
        case
            when pp > 1 then 'how often fsdp gathers in a pipeline is not known'
            else 'the matrices of this model are not known'
        end
    from counted
    where fsdp > 1
    union all
    select
        run_id, phase, passes, 'pp', 'collective-permute',
        ticks,
        ticks * tick_rows * hidden_size / nullif(case when is_split = 1 then sp else 1 end, 0),
        cast(null as varchar)
    from counted
    where pp > 1
),

rows_of_both as (
    select
        run_id, phase, axis, kind, 1 as is_expected, 0 as is_measured,
        case when count(elements) = count(*) then sum(passes * elements) end as elements,
        case when count(moves) = count(*) then sum(passes * moves) end as moves,
        max(case when elements is null then problem end) as problem,
        cast(null as bigint) as payload_bytes,
        cast(null as bigint) as collectives,
        cast(null as varchar) as dtype,
        cast(null as varchar) as last_dtype
    from moves
    group by run_id, phase, axis, kind
    union all
    select
        run_id, phase, axis, kind, 0, 1,
        cast(null as double),
        cast(null as double),
        cast(null as varchar),
        cast(
            case
                when count(payload_bytes * executions) = count(*)
                    then sum(payload_bytes * executions)
            end as bigint
        ),
        case when count(executions) = count(*) then sum(executions) end,
        min(dtype),
        max(dtype)
    from _wire_v1
    group by run_id, phase, axis, kind
),

beside as (
    select
        run_id, phase, axis, kind,
        max(is_expected) as is_expected,
        max(is_measured) as is_measured,
        max(elements) as elements,
        max(moves) as moves,
        max(problem) as problem,
        max(payload_bytes) as payload_bytes,
        max(collectives) as collectives,
        max(dtype) as dtype,
        max(last_dtype) as last_dtype
    from rows_of_both
    group by run_id, phase, axis, kind
),

weighed as (
    select
        b.run_id, b.phase, b.axis, b.kind, b.is_measured, b.payload_bytes, b.collectives,
        b.dtype, b.last_dtype,
        coalesce(
            j.problem,
            b.problem,
            case
                when b.phase is null or b.phase not in ('prefill', 'decode', 'warmup')
                    then 'the passes of this phase are not marked'
                when b.axis in ('unclassified', 'mixed') then 'the axis is not known'
                when b.is_expected = 1 and j.element_bytes is null
                    then 'the width of the run''s type is not known'
            end
        ) as problem,
        case when b.is_expected = 1 then b.moves else 0 end as moves,
        case
            when b.is_expected = 0 then 0
            when j.is_cpu = 1 and j.element_bytes = 2 and b.dtype = 'f32' and b.last_dtype = 'f32'
                then 4 * b.elements
            else j.element_bytes * b.elements
        end as bytes
    from beside as b
    left join judged as j on j.run_id = b.run_id
),

answered as (
    select
        *,
        -- A manifest with more than a BIGINT holds is wrong.
        case when problem is null and bytes < 9e18 then cast(round(bytes) as bigint) end
            as expected_payload_bytes,
        case when is_measured = 1 then payload_bytes else 0 end as measured_payload_bytes
    from weighed
)

select
    -- run
    a.run_id,
    -- prefill, decode, mixed, warmup, compile or step; NULL outside every marker
    a.phase,
    -- mesh axes joined by +, or none, mixed or unclassified
    a.axis,
    -- kind of the collective
    a.kind,
    -- the programs were compiled and did not run
    r.source is not distinct from 'compiled' as is_compiled,
    -- passes of all devices that the sums are over; NULL where they are not marked
    p.passes,
    -- expected collectives, counted on each device
    case when a.problem is null and a.moves < 9e18 then cast(round(a.moves) as bigint) end
        as expected_count,
    -- collectives that were traced or compiled; NULL where their number is not known
    cast(case when a.is_measured = 1 then a.collectives else 0 end as bigint) as made_count,
    -- expected sum of S
    a.expected_payload_bytes,
    -- sum of S that was traced or compiled
    a.measured_payload_bytes as made_payload_bytes,
    -- element type; NULL for none and for several
    case when a.dtype = a.last_dtype then a.dtype end as made_dtype,
    -- why there is no expectation; NULL where there is one
    a.problem as expected_problem
from answered as a
inner join runs as r on r.run_id = a.run_id
left join phase_passes as p on p.run_id = a.run_id and p.phase = a.phase
