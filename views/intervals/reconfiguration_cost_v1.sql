-- one row per run, scope, member of the scope, phase and delay
-- Bounds on the cost of a network of optical circuits that serves one axis at a time (Opus), and
-- so changes between every two bursts (traffic_burst). A change that takes `delay` starts at the end
-- of the previous burst, and hides in the window (traffic_window) until the next burst: hidden is
-- the part of the delay that fits into the window, exposed the rest. Exposed time is what the
-- member would wait if nothing else moved; whether a wait delays the step needs a replay. Phases
-- are of the later burst. The first burst of a member has no change. Delays: 1 us, 10 us, 100 us,
-- 1 ms and 10 ms.
with delays as (
    select cast(delay_ps as bigint) as delay_ps
    from (
        values (1000000), (10000000), (100000000), (1000000000), (10000000000)
    ) as lengths (delay_ps)
),

windows as (
    select line_key, member_id, axis_key, phase, start_ps - from_end_ps as window_ps
    from _burst_v2
    where from_axis_key is not null
),

costs as (
    select
        w.line_key, w.member_id, w.phase, d.delay_ps,
        min(w.axis_key) as axis_key,
        count(*) as changes,
        sum(case when w.window_ps < d.delay_ps then 1 else 0 end) as exposed_changes,
        sum(greatest(0, least(w.window_ps, d.delay_ps))) as hidden_ps
    from windows as w
    cross join delays as d
    group by w.line_key, w.member_id, w.phase, d.delay_ps
)

select
    -- run
    a.run_id,
    -- device, run, group or rail
    l.scope,
    -- device; NULL in other scopes than device
    case when l.scope = 'device' then c.member_id end as device_id,
    -- set of peers: the place in the mesh of its first device; NULL in other scopes than group
    case when l.scope = 'group' then c.member_id end as group_id,
    -- rail: number of its devices within their hosts; NULL in other scopes than rail
    case when l.scope = 'rail' then c.member_id end as rail_id,
    -- phase of the later bursts; NULL outside every marker
    c.phase,
    -- time that a change takes
    c.delay_ps,
    -- steps of the phase that have launches
    t.step_count,
    -- changes from one axis to another: the windows
    cast(c.changes as bigint) as change_count,
    -- changes that do not fit into their windows
    cast(c.exposed_changes as bigint) as exposed_change_count,
    -- changes a step
    c.changes / nullif(cast(t.step_count as double), 0) as changes_per_step,
    -- time of changes within their windows
    cast(c.hidden_ps as bigint) as hidden_ps,
    -- time of changes beyond their windows
    cast(c.changes * c.delay_ps - c.hidden_ps as bigint) as exposed_ps,
    -- share of the time of changes that is hidden
    cast(c.hidden_ps as double) / nullif(cast(c.changes * c.delay_ps as double), 0) as hidden_ratio,
    -- time of changes beyond their windows, a step
    cast(c.changes * c.delay_ps - c.hidden_ps as double) / nullif(cast(t.step_count as double), 0)
        as step_exposed_ps
from costs as c
inner join _line_v1 as l on l.line_key = c.line_key
inner join _axis_key_v1 as a on a.axis_key = c.axis_key
left join _steps_of_phase_v1 as t on t.run_id = a.run_id and t.phase is not distinct from c.phase
