-- one row per instruction of a program
-- Layout of each instruction's result in memory: order of its dimensions, tiles, which memory, and
-- the bytes that the tiles waste. Tuples have no layout of their own, and sizes are NULL where they
-- are not known. Every instruction of the HLO is here, executed or not: join op_profile for that.
with hosts as (
    select run_id
    from devices
    group by run_id
    having min(core) = 'cpu' and max(core) = 'cpu'
)

select
    -- run
    i.run_id,
    -- processes whose programs share device numbers
    i.world,
    -- compiled program
    i.program_id,
    -- name of the program
    i.module,
    -- computation that contains it
    i.computation,
    -- name of the HLO instruction
    i.op,
    -- HLO opcode
    i.opcode,
    -- result shape, with layout, as HLO text writes it
    i.shape,
    -- element type; tuple for tuples
    i.dtype,
    -- dimensions; NULL for tuples
    i.dims,
    -- dimensions from minor to major
    i.layout as minor_to_major,
    -- tiles, such as (8,128)(2,1); NULL without
    i.tiling,
    -- number of the memory in the layout, S(n): 0 HBM, 1 VMEM, 5 host
    i.memory_space as memory_space_id,
    -- HBM (host where all devices are virtual), VMEM, host, or other (numbers whose memory no
    -- public source names); NULL for tuples
    case
        when i.memory_space = 0 and h.run_id is not null then 'host'
        when i.memory_space = 0 then 'HBM'
        when i.memory_space = 1 then 'VMEM'
        when i.memory_space = 5 then 'host'
        when i.memory_space is not null then 'other'
    end as memory,
    -- dims x element size
    i.logical_bytes,
    -- bytes that the tiles occupy
    i.padded_bytes,
    -- padding: padded less logical bytes
    i.padded_bytes - i.logical_bytes as waste_bytes,
    -- padded / logical
    cast(i.padded_bytes as double) / nullif(cast(i.logical_bytes as double), 0) as padding_ratio,
    -- index of the model's layer
    i.layer,
    -- attention, mlp, moe, embedding, head or norm
    i.component
from instructions as i
left join hosts as h on h.run_id = i.run_id
