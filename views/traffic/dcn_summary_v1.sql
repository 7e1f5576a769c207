-- one row per program and transfer between slices of TPUs
-- The rows of dcn_transfer_v1 by instruction, over all devices and executions: means, as xprof's
-- Megascale table has them, and the stall summed over executions. Executions of which a part is
-- not known are counted and left out of the means.
select
    -- run
    run_id,
    -- compiled program
    program_id,
    -- name of the program
    module,
    -- send that starts it, else recv
    op,
    -- name by which Megascale joins its ends; NULL where it is not known
    max(rendezvous) as rendezvous,
    -- kind of the collective
    kind,
    -- mesh axes joined by +, or none, mixed or unclassified
    axis,
    -- executions, on all devices
    cast(count(*) as bigint) as executions,
    -- of these, the ones whose stall is known
    cast(count(stall_ps) as bigint) as known_count,
    -- bytes that a device sends, the most of all executions
    max(wire_bytes) as wire_bytes,
    -- mean time in flight
    avg(in_flight_ps) as mean_in_flight_ps,
    -- mean stall
    avg(stall_ps) as mean_stall_ps,
    -- stall of all executions
    cast(sum(stall_ps) as bigint) as total_stall_ps,
    -- mean slack
    avg(slack_ps) as mean_slack_ps,
    -- wire bytes / mean slack
    max(wire_bytes) * 1e12 / nullif(avg(slack_ps), 0) as required_bytes_per_s,
    -- mean time from the start of the recv-done to the end of the host's part; NULL where no event of
    -- the host is linked
    avg(host_stall_ps) as mean_host_stall_ps
from dcn_transfer_v1
group by run_id, program_id, module, op, kind, axis
