-- one row per run, host and step of a server
-- Steps that a server marks (vLLM's tpu-inference, and captures of serving experiments), each of which
-- serves several requests. Times of devices are means over the host's devices. The period of a step is
-- that of device_time: from the end of the device's previous step to its own end, without the time in
-- which no request was open. Shares are of the period. NULL where the trace lacks the step's ops.
select
    -- run
    run_id,
    -- host
    host,
    -- step of the server, by start over all of the run's
    step,
    -- prefill (all of its requests' tokens are of prompts), decode (none is), mixed; step where the trace
    -- does not tell
    phase,
    -- requests that it serves, as its marker states
    requests,
    -- tokens of all of them, as its marker states
    tokens,
    -- start of its marker on the host
    start_ps,
    -- end of its last op over the host's devices
    end_ps,
    -- period, the mean over the host's devices
    cast(round(cast(period_ps as double) / nullif(devices, 0)) as bigint) as period_ps,
    -- share of the period in which a compute op runs; NULL where kernels communicate
    cast(compute_ps as double) / nullif(period_ps, 0) as compute_ratio,
    -- share of the period in which a collective is in flight and no compute op runs; NULL where kernels
    -- communicate
    cast(exposed_ps as double) / nullif(period_ps, 0) as exposed_ratio,
    -- time in which no launch was open before its launches, in gaps longer than 10 us: the host was late;
    -- the mean over the host's devices; NULL of virtual devices
    cast(round(cast(host_gap_ps as double) / nullif(devices, 0)) as bigint) as host_gap_ps,
    -- share of the period in which the host was late
    cast(host_gap_ps as double) / nullif(period_ps, 0) as host_gap_ratio
from _served_step_v1
