-- one row per setup besides its mesh, source, microbatches, other axes, axis and size along the axis
-- How the rate grows as one axis of the mesh grows and all else that was chosen stays: every
-- setting but the mesh and what follows from it (runs.setup_besides_mesh), the microbatches and the
-- other axes. A run for which that hash is not known, as one of an older ingest, is compared with
-- no other. Speed-up and efficiency are against the smallest size that has a rate, and NULL where
-- no other size has one. Rates are medians over runs (of an even number, the mean of the two middle
-- values); measured, compiled and predicted runs stay apart. The batch stays, so this is strong
-- scaling. A run without the axis has size 1 on it; sizes of 1 with nothing to compare to are left
-- out, and so are runs without a model or with a mesh that cannot be used. A run without a pipeline
-- does not use microbatches: along pp it is the size 1 of each number of them.
with settings as (
    select
        r.run_id, r.microbatches,
        case when r.source in ('compiled', 'predicted') then r.source else 'measured' end
            as source,
        coalesce(r.setup_besides_mesh, concat('run ', r.run_id)) as setting
    from runs as r
    inner join _mesh_state_v1 as s on s.run_id = r.run_id
    where r.model is not null and s.mesh_problem is null
),

wide as (
    select s.setting, s.source, a.run_id, a.axis, a.axis_index, a.size
    from _mesh_axis_v1 as a
    inner join settings as s on s.run_id = a.run_id
),

known_axes as (
    select setting, source, axis
    from wide
    group by setting, source, axis
    having max(size) > 1
),

placed as (
    select
        s.setting, s.source, s.run_id, s.microbatches, k.axis,
        max(case when a.axis = k.axis then a.size else 1 end) as size,
        coalesce(
            string_agg(
                case when a.axis <> k.axis and a.size > 1
                    then concat(a.axis, cast(a.size as varchar)) end, '.' order by a.axis_index
            ), ''
        ) as other_axes
    from settings as s
    inner join known_axes as k on k.setting = s.setting and k.source = s.source
    left join wide as a on a.run_id = s.run_id
    group by s.setting, s.source, s.run_id, s.microbatches, k.axis
),

pipelines as (
    select setting, source, other_axes, microbatches
    from placed
    where axis = 'pp' and size > 1
    group by setting, source, other_axes, microbatches
),

compared_runs as (
    select setting, source, microbatches, run_id, axis, other_axes, size
    from placed
    where axis <> 'pp' or size > 1
    union all
    select p.setting, p.source, q.microbatches, p.run_id, p.axis, p.other_axes, p.size
    from placed as p
    inner join pipelines as q
        on q.setting = p.setting and q.source = p.source and q.other_axes = p.other_axes
    where p.axis = 'pp' and p.size = 1
),

rated as (
    select
        p.*, c.devices, c.devices_per_chip, c.inferred, l.output_tokens_per_s,
        row_number() over (
            partition by p.setting, p.source, p.microbatches, p.axis, p.other_axes, p.size
            order by l.output_tokens_per_s nulls last, p.run_id
        ) as place,
        count(l.output_tokens_per_s) over (
            partition by p.setting, p.source, p.microbatches, p.axis, p.other_axes, p.size
        ) as rates
    from compared_runs as p
    left join _run_chips_v1 as c on c.run_id = p.run_id
    left join _run_latency_v2 as l on l.run_id = p.run_id
),

sizes as (
    select
        setting, source, microbatches, axis, other_axes, size,
        min(run_id) as run_id,
        count(*) as runs,
        max(rates) as rates,
        max(devices) as devices,
        max(devices_per_chip) as devices_per_chip,
        max(inferred) as inferred,
        avg(
            case when place in ((rates + 1) // 2, (rates + 2) // 2) then output_tokens_per_s end
        ) as output_tokens_per_s
    from rated
    group by setting, source, microbatches, axis, other_axes, size
),

based as (
    select
        *,
        count(*) over (partition by setting, source, microbatches, axis, other_axes) as sizes,
        min(case when output_tokens_per_s is not null then size end)
            over (partition by setting, source, microbatches, axis, other_axes) as least_size,
        max(case when output_tokens_per_s is not null then size end)
            over (partition by setting, source, microbatches, axis, other_axes) as greatest_size
    from sizes
),

compared as (
    select
        *,
        case when least_size < greatest_size then least_size end as base_size,
        max(
            case
                when size = least_size and least_size < greatest_size then output_tokens_per_s
            end
        ) over (partition by setting, source, microbatches, axis, other_axes)
            as base_tokens_per_s
    from based
    where size > 1 or sizes > 1
)

select
    -- model
    r.model,
    -- what all sizes share: hash of all settings besides the mesh; NULL where unknown
    r.setup_besides_mesh,
    -- measured, compiled or predicted
    c.source,
    -- axis of the mesh that grows
    c.axis,
    -- the other axes of the mesh, such as dp2.pp2; empty where there are none
    c.other_axes,
    -- devices along the axis
    cast(c.size as bigint) as size,
    -- devices of the run
    cast(c.devices as bigint) as devices,
    -- a run of this size, the one with the lowest id
    c.run_id,
    -- type of weights and activations
    r.dtype,
    -- sequences in a batch, over all devices
    r.batch_size,
    -- microbatches that a batch is split into; along pp, in the runs that have a pipeline
    c.microbatches,
    -- tokens of a prompt
    r.prompt_tokens,
    -- tokens generated for a sequence, the first included
    r.output_tokens,
    -- such as TPU v6 Lite or cpu
    r.device_kind,
    -- some device is virtual, or its identity deduced: times are not those of an accelerator
    c.inferred = 1 as inferred,
    -- measured runs of this size; 0 where it was compiled or predicted
    cast(case when c.source = 'measured' then c.runs else 0 end as bigint) as runs,
    -- batch size x output tokens / e2e
    c.output_tokens_per_s,
    -- the same for each chip; NULL where the number of devices a chip is not known
    c.output_tokens_per_s * c.devices_per_chip / nullif(c.devices, 0) as chip_tokens_per_s,
    -- size that speed-up and efficiency are against; NULL where fewer than two sizes have a rate
    cast(c.base_size as bigint) as base_size,
    -- rate / rate of the smallest size
    c.output_tokens_per_s / nullif(c.base_tokens_per_s, 0) as speedup_ratio,
    -- speed-up / (size / base_size)
    c.output_tokens_per_s / nullif(c.base_tokens_per_s, 0) * c.base_size / nullif(c.size, 0)
        as efficiency_ratio
from compared as c
inner join runs as r on r.run_id = c.run_id
