-- one row per instruction of a program
-- How the result of each instruction lies in memory: order of its dimensions, tiles, which memory,
-- and what the tiles waste. Tuples have no layout of their own, and sizes are NULL where they are not
-- known. Every instruction that the HLO has is here, executed or not: join op_profile for that.
select
    -- run
    run_id,
    -- processes whose programs share device numbers
    world,
    -- compiled program
    program_id,
    -- name of the program
    module,
    -- computation that holds it
    computation,
    -- name of the HLO instruction
    op,
    -- HLO opcode
    opcode,
    -- result shape, with layout, as HLO text writes it
    shape,
    -- element type; tuple for tuples
    dtype,
    -- dimensions; NULL for tuples
    dims,
    -- dimensions from minor to major
    layout as minor_to_major,
    -- tiles, such as (8,128)(2,1); NULL without
    tiling,
    -- number of the memory in the layout, S(n): 0 HBM, 1 VMEM, 5 host
    memory_space as memory_space_id,
    -- HBM, VMEM, host, or other (numbers whose memory no public source names); NULL for tuples
    case
        when memory_space = 0 then 'HBM'
        when memory_space = 1 then 'VMEM'
        when memory_space = 5 then 'host'
        when memory_space is not null then 'other'
    end as memory,
    -- dims x element size
    logical_bytes,
    -- bytes that the tiles occupy
    padded_bytes,
    -- bytes that hold nothing
    padded_bytes - logical_bytes as waste_bytes,
    -- padded / logical
    cast(padded_bytes as double) / nullif(cast(logical_bytes as double), 0) as padding_ratio,
    -- index of the model's layer
    layer,
    -- attention, mlp, moe, embedding, head or norm
    component
from instructions
