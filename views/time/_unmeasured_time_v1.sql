-- one row per warm-up and per compile of a host, in which a run is not measured
-- Requests during one are left out of latencies and rates.
with spans as (
    select run_id, host, start_ps, start_ps + duration_ps as end_ps
    from phases
    where phase = 'warmup'
    union all
    select run_id, host, start_ps, end_ps
    from _compile_v1
)

select
    -- run
    s.run_id,
    -- start
    s.start_ps,
    -- end
    s.end_ps,
    -- group of the host's clock (_apart_clock_v1); NULL where all can be compared, or it is not known
    h.clock_group
from spans as s
left join _apart_clock_v1 as h on h.run_id = s.run_id and h.host = s.host
