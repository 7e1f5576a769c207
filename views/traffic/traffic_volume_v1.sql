-- one row per run, device, phase, axis and kind of collective
-- How much each parallelism makes each device send. payload is S of the instruction, wire the bytes
-- that the device sends. A sum with an unknown part is NULL; collectives_unknown counts the rows at
-- fault.
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
    -- collectives on the device
    cast(count(*) as bigint) as collectives,
    -- distinct instances among them; devices share instances, so never add these over devices
    cast(count(distinct instance) as bigint) as instances,
    -- collectives whose payload or wire bytes are unknown
    cast(sum(case when payload_bytes is null or wire_bytes is null then 1 else 0 end) as bigint)
        as collectives_unknown,
    -- sum of S
    cast(case when count(payload_bytes) = count(*) then sum(payload_bytes) end as bigint)
        as payload_bytes,
    -- sum of the bytes that the device sends
    cast(case when count(wire_bytes) = count(*) then sum(wire_bytes) end as double) as wire_bytes
from _collective_wire_v1
group by run_id, device_id, phase, axis, kind
