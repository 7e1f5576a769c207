-- one row per run and step of a server
-- serving_step_v1 over all hosts of a step: its periods and shares are over all of its devices.
select
    -- run
    run_id,
    -- step of the server
    step,
    -- phase
    min(phase) as phase,
    -- requests that it serves
    max(requests) as requests,
    -- tokens of all of them
    max(tokens) as tokens,
    -- start of its marker, the earliest over hosts
    min(start_ps) as start_ps,
    -- tokens that are known to be of prompts
    max(least_prompt_tokens) as least_prompt_tokens,
    -- all tokens but the ones that are known not to be of prompts
    max(most_prompt_tokens) as most_prompt_tokens,
    -- end of its last op over all devices; NULL where a host's is not known
    case when count(end_ps) = count(*) then max(end_ps) end as end_ps,
    -- sum of the devices' periods; NULL where one is not known
    cast(case when count(period_ps) = count(*) then sum(period_ps) end as bigint) as all_period_ps,
    -- devices
    cast(sum(devices) as bigint) as devices,
    -- sum of their time in which a compute op runs; NULL where kernels communicate
    cast(case when count(compute_ps) = count(*) then sum(compute_ps) end as bigint) as compute_ps,
    -- sum of their exposed time; NULL where kernels communicate
    cast(case when count(exposed_ps) = count(*) then sum(exposed_ps) end as bigint) as exposed_ps,
    -- sum of the gaps before their launches; NULL of virtual devices
    cast(case when count(host_gap_ps) = count(*) then sum(host_gap_ps) end as bigint) as host_gap_ps,
    -- period, the mean over the devices, in seconds
    case
        when count(period_ps) = count(*)
            then cast(sum(period_ps) as double) / nullif(sum(devices), 0) / 1e12
    end as period_s
from _served_step_v1
group by run_id, step
