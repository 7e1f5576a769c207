-- one row per metric of CCL-Bench for TPUs
-- With the reason for a missing value, and the faults of the definition, as ccl_legacy_v1 states them.
with metrics as (
    select * from (
        values
        (
            'avg_step_time', 's', 'no step event of vLLM, and no iterations in the card to divide by',
            'mean of the inner host steps of one vLLM version; else the whole trace, idle time included, over the card''s iterations'
        ),
        (
            'ttft', 's', 'no step event of vLLM, or the card does not say inference',
            'the first host step in the trace, which may belong to no request''s first token'
        ),
        (
            'tpot', 's', 'fewer than two step events of vLLM, one output token, or the card does not say inference',
            'mean of the inner host steps, prefills among them: equal to the step time'
        ),
        (
            'mfu', '%', 'no FLOPs in the trace, no count of chips, or not the one chip that they know the peak of',
            'idle time is left out: FLOPs over the union of the times in which an op with FLOPs runs on any chip'
        ),
        (
            'communication_fraction', '%', 'no event on a device',
            'launches and steps count in the denominator, so that a share reads half of what it is; async transfers count by their start and done'
        ),
        (
            'compute_comm_overlap', '%', 'no step event, or nothing in one that is named as a collective',
            'over the processes of all chips and hosts at once, by name: one chip''s compute hides another''s transfer, and host frames count'
        ),
        (
            'collective_vol_allreduce_gb', 'GB', 'no event',
            'bytes_accessed counts what is read and written, twice the payload; async pairs give 0; over all chips and steps'
        ),
        (
            'collective_vol_allgather_gb', 'GB', 'no event',
            'bytes_accessed counts what is read and written; async pairs give 0; over all chips and steps'
        ),
        (
            'collective_vol_reducescatter_gb', 'GB', 'no event',
            'bytes_accessed counts what is read and written; async pairs give 0; over all chips and steps'
        ),
        (
            'collective_vol_alltoall_gb', 'GB', 'no event',
            'bytes_accessed counts what is read and written; async pairs give 0; over all chips and steps'
        ),
        (
            'collective_vol_total_gb', 'GB', 'no event',
            'sum of the four above; permutes, broadcasts and sends are left out'
        ),
        (
            'bandwidth_utilization_allreduce_group_6', 'GB/s', 'no synchronous all-reduce with bytes and a duration',
            'bytes_accessed in place of the payload, 2^30 called GB, all traced chips taken for one group, and waits for late chips counted as transfer'
        ),
        (
            'bandwidth_utilization_allgather_group_6', 'GB/s', 'no synchronous all-gather with bytes and a duration',
            'bytes_accessed in place of the payload, 2^30 called GB, all chips that run an op of the name taken for one group'
        ),
        (
            'bandwidth_utilization_reducescatter_group_6', 'GB/s', 'no synchronous reduce-scatter with bytes and a duration',
            'bytes_accessed in place of the payload, 2^30 called GB, all chips that run an op of the name taken for one group'
        ),
        (
            'bandwidth_utilization_alltoall_group_6', 'GB/s', 'no synchronous all-to-all with bytes and a duration',
            'bytes_accessed in place of the payload, 2^30 called GB, all chips that run an op of the name taken for one group'
        ),
        (
            'average_memory_bandwidth', 'GB/s', 'no pair of copy-start and copy-done with bytes and a time between',
            'pairs by the number in the name over all chips and programs: one overwrites the other; start to start of the done, which is not when the copy ends'
        ),
        (
            'memory_transfer_overhead', '%', 'no step event of vLLM, or no pair of copy-start and copy-done',
            'whatever any chip does hides a copy of another, waits and step lines included; over host time, for all chips together'
        ),
        (
            'dominant_kernel_concentration', '%', 'no event with a category on a device',
            'nested ops count in their loop and by themselves'
        ),
        (
            'total_communication_time', 's', 'no event',
            'summed over chips, start and done apart, by name: host frames and launches count where theirs fits'
        )
    ) as rows_of (metric, unit, missing, note)
)

select
    -- CCL-Bench's name of the metric
    metric,
    -- s, %, GB or GB/s, as it calls it
    unit,
    -- why a run that was traced has no value
    missing,
    -- what is wrong with the definition
    note
from metrics
