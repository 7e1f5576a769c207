-- one row per device whose events `xlahouse export ccl-bench` writes: the traced cores of TPUs
select
    -- run
    run_id,
    -- device
    device_id
from devices
where traced and core in ('tensorcore', 'sparsecore') and not coalesce(inferred, false)
