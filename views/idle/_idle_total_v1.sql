-- one row per step's window on a device, row of busy_stretches in it and level
-- Level 0 is the peer group; level 1, where the pipeline has stages, the devices of the own stage.
-- The cause of a device's idle times follows from differences of a running total: the time so far
-- in which no device of the level is busy, within the same step. SparseCores are left out.
with reached as (
    select
        l.row_key, l.key, l.staged, s.start_ps, s.idle_ps, s.gap_before_ps, s.gap_after_ps,
        case when s.in_launch then 1 else 0 end as in_launch,
        case when s.idle_ps + s.gap_before_ps + s.gap_after_ps < 100000 then s.idle_ps else 0 end
            as short_ps,
        case when s.idle_ps + s.gap_before_ps + s.gap_after_ps >= 100000 then 1 else 0 end
        - case when s.next_gap_ps >= 100000 then 1 else 0 end as long_turn,
        case
            when s.in_launch and s.idle_ps + s.gap_before_ps + s.gap_after_ps >= 100000 then 1
            else 0
        end
        - case when s.next_in_launch and s.next_gap_ps >= 100000 then 1 else 0 end as open_turn,
        max(s.start_ps + s.duration_ps) over (
            partition by l.key order by s.start_ps
            rows between unbounded preceding and 1 preceding
        ) as reached_ps
    from _idle_level_v1 as l
    inner join busy_stretches as s
        on s.run_id = l.run_id and s.device_id = l.device_id
        and s.request is not distinct from l.request and s.step is not distinct from l.step
)

select
    -- key of the window
    row_key - row_key % 2 as window_key,
    -- 0: the peer group; 1: the own stage
    row_key % 2 as level,
    -- the window has both levels
    staged,
    -- start of the row
    start_ps,
    -- idle time directly before
    idle_ps,
    -- time of the same gap before that idle time
    gap_before_ps,
    -- time of the same gap from this row on
    gap_after_ps,
    -- a launch of the step is open in the idle time: 1, else 0
    in_launch,
    -- the idle time, where its gap is short: under 100 ns
    short_ps,
    -- idle times of long gaps that end here, less those that begin
    long_turn,
    -- of these, the ones with a launch of the step open
    open_turn,
    -- time up to the row's start with no device of the level busy
    cast(
        coalesce(
            sum(greatest(start_ps - reached_ps, 0)) over (partition by key order by start_ps), 0
        ) as bigint
    ) as idle_so_far_ps
from reached
