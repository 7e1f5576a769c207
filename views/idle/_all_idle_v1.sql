-- one row per step, level of its devices and time in which none of them is busy
-- From the first long gap (100 ns or more) of one of these devices to the end of the last one. Where
-- a row of busy_stretches starts later than all rows of the level before it end, no device was busy.
with reached as (
    select
        l.key, s.start_ps,
        max(s.start_ps + s.duration_ps) over (
            partition by l.key order by s.start_ps
            rows between unbounded preceding and 1 preceding
        ) as reached_ps
    from _idle_level_v1 as l
    inner join busy_stretches as s
        on s.run_id = l.run_id and s.device_id = l.device_id
        and s.request is not distinct from l.request and s.step is not distinct from l.step
        and s.start_ps <= l.long_end_ps and s.start_ps + s.duration_ps >= l.long_start_ps
)

select
    -- key of the level's devices in the step
    key,
    -- end
    start_ps as end_ps,
    -- length
    start_ps - reached_ps as duration_ps
from reached
where start_ps > reached_ps
