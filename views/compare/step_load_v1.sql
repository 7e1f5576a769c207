-- one row per run, phase and metric of a step
-- What one step of a phase moves and holds on a device: the same of a measured and of a compiled run,
-- whose totals cannot be compared. Traffic is a mean over the steps of all traced devices (SparseCores
-- left out), of a compiled run over all devices and its one step. Memory is HBM by the compiler's
-- assignment (program_memory): the most over the programs that the phase launches. Only prefill and
-- decode, and only metrics that are known, have rows.
with device_steps as (
    select run_id, device_id, phase, request, step
    from launches
    where phase in ('prefill', 'decode') and step is not null
    union
    select run_id, device_id, phase, request, step
    from collectives
    where phase in ('prefill', 'decode') and step is not null
),

cores as (
    select run_id, device_id from devices where core is distinct from 'sparsecore'
),

steps as (
    select s.run_id, s.phase, cast(count(*) as double) as steps
    from device_steps as s
    inner join cores as c on c.run_id = s.run_id and c.device_id = s.device_id
    group by s.run_id, s.phase
    union all
    select p.run_id, p.phase, cast(count(*) as double)
    from programs as p
    inner join cores as c on c.run_id = p.run_id
    where p.source = 'compiled'
    group by p.run_id, p.phase
),

traffic as (
    select
        run_id, phase,
        case when count(collectives) = count(*) then sum(collectives) end as collectives,
        case when count(payload_bytes) = count(*) then sum(payload_bytes) end as payload_bytes,
        case when count(wire_bytes) = count(*) then sum(wire_bytes) end as wire_bytes
    from traffic_volume_v1
    group by run_id, phase
),

moved as (
    select
        s.run_id, s.phase, s.steps,
        case when t.run_id is null then 0 else t.collectives end as collectives,
        case when t.run_id is null then 0 else t.payload_bytes end as payload_bytes,
        case when t.run_id is null then 0 else t.wire_bytes end as wire_bytes
    from steps as s
    left join traffic as t on t.run_id = s.run_id and t.phase = s.phase
),

launched as (
    select run_id, program_id, phase
    from launches
    where phase in ('prefill', 'decode')
    group by run_id, program_id, phase
    union all
    select run_id, program_id, phase from programs where source = 'compiled'
),

held as (
    select
        l.run_id, l.phase,
        max(m.argument_bytes) as argument_bytes,
        max(m.temporary_bytes) as temporary_bytes,
        max(m.total_bytes) as total_bytes,
        max(m.peak_bytes) as peak_bytes
    from launched as l
    inner join program_memory_v1 as m
        on m.run_id = l.run_id and m.program_id = l.program_id and m.memory = 'HBM'
    group by l.run_id, l.phase
),

metrics as (
    select run_id, phase, 'collectives' as metric, collectives / nullif(steps, 0) as value from moved
    union all
    select run_id, phase, 'payload_bytes', payload_bytes / nullif(steps, 0) from moved
    union all
    select run_id, phase, 'wire_bytes', wire_bytes / nullif(steps, 0) from moved
    union all
    select run_id, phase, 'argument_bytes', argument_bytes from held
    union all
    select run_id, phase, 'temporary_bytes', temporary_bytes from held
    union all
    select run_id, phase, 'total_bytes', total_bytes from held
    union all
    select run_id, phase, 'peak_bytes', peak_bytes from held
)

select
    -- run
    m.run_id,
    -- prefill or decode
    m.phase,
    -- collectives, payload_bytes or wire_bytes: of a device in a step, the mean; argument_bytes,
    -- temporary_bytes, total_bytes or peak_bytes: of HBM, as in program_memory
    m.metric,
    -- measured or compiled
    case when r.source in ('compiled', 'predicted') then r.source else 'measured' end as source,
    -- value
    cast(m.value as double) as value
from metrics as m
inner join runs as r on r.run_id = m.run_id
where m.value is not null
