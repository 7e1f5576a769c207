-- one row per run, device, program and start of an async pair, collectives left out
-- Time in flight of copies and other async ops.
select
    -- run
    run_id,
    -- device
    device_id,
    -- compiled program
    program_id,
    -- name of the pair's start
    start_op,
    -- pairs
    cast(count(*) as bigint) as executions,
    -- sum of their times in flight
    cast(sum(end_ps - start_ps) as bigint) as duration_ps
from _async_pair_v1
group by run_id, device_id, program_id, start_op
