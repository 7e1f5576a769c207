-- one row per event that a metric of CCL-Bench reads by itself
-- Few names are read one by one: steps, halves of copies, and ops with FLOPs or a transfer's bytes. Where a
-- run has steps, all its events are read, since any may overlap with one.
with names as (
    select
        run_id, name,
        max(case when name = '$core.py:331 step' or name = 'StepMarker' then 1 else 0 end)
            as steps,
        regexp_extract(name, 'copy-(start|done)[.]([0-9]+)', 1) as copy_half,
        regexp_extract(name, 'copy-(start|done)[.]([0-9]+)', 2) as copy_number,
        max(
            case
                when model_flops > 0 then 1
                when hlo_category in ('all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all')
                    and bytes_accessed > 0 then 1
                else 0
            end
        ) as measured
    from _ccl_total_v1
    group by run_id, name
),

step_runs as (
    select run_id, max(steps) as steps
    from names
    group by run_id
),

chosen as (
    select
        n.run_id, n.name, n.copy_half, n.copy_number,
        regexp_extract(
            lower(n.name),
            'nccl|all[_-]?reduce|all[_-]?gather|reduce[_-]?scatter|all[_-]?to[_-]?all|cross[_-]?device|sendrecv|collective',
            0
        ) <> '' as is_named_transfer,
        regexp_extract(
            lower(n.name), 'dot|convolution|gemm|matmul|fusion|compute|custom-call', 0
        ) <> '' as is_named_compute
    from names as n
    inner join step_runs as r on r.run_id = n.run_id
    where r.steps + n.measured > 0 or n.copy_half <> ''
)

select
    -- run
    e.run_id,
    -- device whose process has the event; NULL on a host's
    e.device_id,
    -- name
    e.name,
    -- line of the plane, or thread of the host
    e.line,
    -- start
    e.start_ps,
    -- duration
    e.duration_ps,
    -- XLA's category of an op
    e.hlo_category,
    -- bytes that it reads and writes
    e.bytes_accessed,
    -- FLOPs of the model's mathematics
    e.model_flops,
    -- start or done of a copy; '' of another event
    c.copy_half,
    -- number in the name of a half; '' of another event
    c.copy_number,
    -- whether its name counts as a transfer where transfers and compute overlap
    c.is_named_transfer,
    -- whether its name counts as compute there
    c.is_named_compute
from _ccl_event_v1 as e
inner join chosen as c on c.run_id = e.run_id and c.name = e.name
