-- one row per run
-- The scheme of keys. Windows and groups take half the time where no text is among their keys, so
-- internal views pack a run and a part of it into one BIGINT: they add the part's number, times its
-- unit, to the key that the part lies in.
--   key          view              is                                unit   numbers
--   run_key      _run_key_v1       run                               2^40   from 1
--   axis_key     _axis_key_v1      run_key + axis x axis_unit        2^20   below 2^20
--   summary_key  _interval_v1      axis_key + phase                  1      below 2^20
--   line_key     _line_v1          run_key + scope                   1      0 to 3, as _line_v1 lists
--   window_key   _step_window_v1   run_key + 2 x window              2      below 2^39
--   row_key      _idle_level_v1    window_key + level                1      0, 1
-- 2^23 runs are an error on both engines: the BIGINT overflows. A part never fills its bits: a run has
-- at most 3 more axes than devices (an axis is made of mesh axes of size 2 or more), a phase for each
-- word of phases.phase, and a window for each row of device_steps. The lint refuses powers of two in
-- other views, and keys that are multiplied or taken apart, except % 2.
select
    -- run
    run_id,
    -- key of the run; all are one partition on purpose: there are few runs
    cast(row_number() over (partition by 1 order by run_id) * 1099511627776 as bigint) as run_key,
    -- what the number of an axis is multiplied by in axis_key
    cast(1048576 as bigint) as axis_unit
from runs
