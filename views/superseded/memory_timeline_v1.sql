-- one row per allocator of a device's memory and time at which it allocates or frees
-- From the counters that allocators leave in a trace. The peak of a device's HBM is the largest
-- peak_bytes of its allocator; it may be of a time before the profile.
select
    -- run
    run_id,
    -- device; NULL where the allocator's name states none of the file's devices
    device_id,
    -- allocator, such as TPU_0_hbm
    allocator,
    -- time of the allocation or release
    start_ps,
    -- bytes in use afterwards; NULL where the allocator does not state them
    in_use_bytes,
    -- most bytes in use at any time so far; NULL where the allocator does not state them
    peak_bytes
from _allocator_sample_v1
