-- one row per run, device, phase, axis and kind of collective
-- How much each parallelism makes each device send. payload is S of the instruction, wire the bytes
-- that the device sends. A sum with an unknown part is NULL; collectives_unknown counts the rows at
-- fault. Of a compiled run, the rows are of one prefill and of one decode step.
select
    -- run
    run_id,
    -- device that sends
    device_id,
    -- prefill, decode, mixed, warmup, compile or step; NULL outside every marker
    phase,
    -- mesh axes joined by +, or none, mixed or unclassified
    axis,
    -- kind of the collective
    kind,
    -- collectives on the device; NULL where a program decides at run time how often it makes one
    cast(case when count(executions) = count(*) then sum(executions) end as bigint) as collectives,
    -- distinct instances among them; devices share instances, so never add these over devices
    cast(
        case
            when count(executions) = count(*)
                then count(distinct instance)
                + sum(case when is_measured or group_index is null then 0 else executions end)
        end as bigint
    ) as instances,
    -- collectives whose payload, wire bytes or number are unknown
    cast(
        sum(
            case
                when payload_bytes is null or wire_bytes is null or executions is null then 1
                else 0
            end
        ) as bigint
    ) as collectives_unknown,
    -- sum of S
    cast(
        case
            when count(payload_bytes * executions) = count(*) then sum(payload_bytes * executions)
        end as bigint
    ) as payload_bytes,
    -- sum of the bytes that the device sends
    cast(
        case when count(wire_bytes * executions) = count(*) then sum(wire_bytes * executions) end
        as double
    ) as wire_bytes
from _wire_v1
group by run_id, device_id, phase, axis, kind
