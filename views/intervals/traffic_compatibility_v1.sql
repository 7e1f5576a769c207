-- one row per ordered pair of runs and their phases
-- Whether two jobs fit on one link if one is shifted in time against the other, as schedulers like
-- CASSINI ask. A job repeats the steps of a phase; its demand is that of its busiest device
-- (traffic_profile, axes summed). A pair of a run with itself is two jobs of one kind. Periods are
-- rounded to 1 % of the shorter, which is the unit of angles; the common period is their least
-- common multiple, of at most 20 of the longer; one may be at most 100 of the other. The score is 1
-- less the mean excess of both demands over the capacity, as a share of the capacity: 1 fits, and
-- below 0 the excess is more than the capacity. Shifts delay the second job by whole units within its
-- period; later ones repeat earlier ones. The capacity is what the user set (`xlahouse set peaks RUN
-- shared_link_bytes_per_s=…`): ICI is not shared by jobs, and no peak of DCN is known. NULL with the
-- reason where a score cannot be known.
with jobs as (
    select
        d.run_id, d.phase,
        max(d.period_ps) as period_ps,
        case when count(d.bytes_per_s) = count(*) then sum(d.bytes_per_s) / 100 end
            as mean_bytes_per_s,
        max(s.shared_link_bytes_per_s) as capacity
    from _job_demand_v1 as d
    left join run_settings as s on s.run_id = d.run_id
    group by d.run_id, d.phase
),

pairs as (
    select
        a.run_id, a.phase, b.run_id as other_run_id, b.phase as other_phase,
        a.period_ps, b.period_ps as other_period_ps,
        a.mean_bytes_per_s, b.mean_bytes_per_s as other_mean_bytes_per_s,
        case
            when coalesce(a.capacity, b.capacity) = coalesce(b.capacity, a.capacity)
                then coalesce(a.capacity, b.capacity)
        end as capacity,
        case when a.capacity <> b.capacity then 1 else 0 end as capacities_differ,
        -- hundredths of the shorter period in the longer, rounded half up
        (200 * greatest(a.period_ps, b.period_ps) + least(a.period_ps, b.period_ps))
        // nullif(2 * least(a.period_ps, b.period_ps), 0) as longer_units
    from jobs as a
    cross join jobs as b
),

-- The greatest common divisor of the periods in units; 100 / common of the longer are one common
-- period, so that less than 5 is too many.
divided as (
    select
        *,
        case when period_ps <= other_period_ps then 100 else longer_units end as units,
        case when period_ps <= other_period_ps then longer_units else 100 end as other_units,
        case
            when longer_units % 100 = 0 then 100
            when longer_units % 50 = 0 then 50
            when longer_units % 25 = 0 then 25
            when longer_units % 20 = 0 then 20
            when longer_units % 10 = 0 then 10
            when longer_units % 5 = 0 then 5
        end as common
    from pairs
),

judged as (
    select
        *,
        case
            when mean_bytes_per_s is null or other_mean_bytes_per_s is null
                then 'a demand is not known'
            when capacities_differ = 1 then 'two capacities are set'
            when capacity is null then 'no capacity is set'
            when longer_units > 10000 then 'one period is over 100 of the other'
            when common is null then 'no common period of at most 20 of the longer'
        end as reason
    from divided
),

fitting as (
    select * from judged where reason is null
),

angles as (
    select
        run_id, phase, other_run_id, other_phase, 0 as is_other, units,
        unnest(range(units)) as unit_index
    from fitting
    union all
    select
        run_id, phase, other_run_id, other_phase, 1, other_units,
        unnest(range(other_units))
    from fitting
),

-- A unit is no longer than a hundredth of its own job's period, so it lies in two of them at most.
parts as (
    select
        *,
        case when is_other = 1 then other_run_id else run_id end as job_run_id,
        case when is_other = 1 then other_phase else phase end as job_phase,
        100 * unit_index // nullif(units, 0) as first_bin,
        least((100 * unit_index // nullif(units, 0) + 1) * units - 100 * unit_index, 100)
            as first_hundredths
    from angles
),

demands as (
    select
        p.run_id, p.phase, p.other_run_id, p.other_phase, p.is_other, p.unit_index,
        (
            p.first_hundredths * d.bytes_per_s
            + (100 - p.first_hundredths) * coalesce(e.bytes_per_s, 0)
        ) / 100 as bytes_per_s
    from parts as p
    inner join _job_demand_v1 as d
        on d.run_id = p.job_run_id and d.phase is not distinct from p.job_phase
        and d.bin = p.first_bin
    left join _job_demand_v1 as e
        on e.run_id = p.job_run_id and e.phase is not distinct from p.job_phase
        and e.bin = p.first_bin + 1
),

-- On the common period every unit of one job meets every unit of the other once, if their difference
-- is the shift up to multiples of the common divisor.
met as (
    select
        f.run_id, f.phase, f.other_run_id, f.other_phase, f.common, f.capacity,
        a.unit_index - b.unit_index as apart,
        greatest(a.bytes_per_s + b.bytes_per_s - f.capacity, 0) as excess
    from fitting as f
    inner join demands as a
        on a.run_id = f.run_id and a.phase is not distinct from f.phase
        and a.other_run_id = f.other_run_id and a.other_phase is not distinct from f.other_phase
    inner join demands as b
        on b.run_id = f.run_id and b.phase is not distinct from f.phase
        and b.other_run_id = f.other_run_id and b.other_phase is not distinct from f.other_phase
    where a.is_other = 0 and b.is_other = 1
),

shifted as (
    select *, (apart % nullif(common, 0) + common) % nullif(common, 0) as shift
    from met
),

scores as (
    select
        run_id, phase, other_run_id, other_phase, shift,
        1 - sum(excess) / nullif(sum(capacity), 0) as score
    from shifted
    group by run_id, phase, other_run_id, other_phase, shift
),

topped as (
    select
        *,
        max(score) over (partition by run_id, phase, other_run_id, other_phase) as top
    from scores
),

-- Scores are as good as each other where they differ by less than sums of floats may.
ranked as (
    select
        *,
        row_number() over (
            partition by run_id, phase, other_run_id, other_phase
            order by case when top - score <= 1e-9 * greatest(abs(top), 1e0) then 0 else 1 end, shift
        ) as place
    from topped
),

best as (
    select
        run_id, phase, other_run_id, other_phase,
        max(case when shift = 0 then score end) as in_phase_score,
        max(case when place = 1 then score end) as best_score,
        max(case when place = 1 then shift end) as shift
    from ranked
    group by run_id, phase, other_run_id, other_phase
)

select
    -- run of the first job
    j.run_id,
    -- phase whose steps it repeats; NULL outside every marker
    j.phase,
    -- run of the second job
    j.other_run_id,
    -- phase whose steps it repeats
    j.other_phase,
    -- median period of the first job's steps
    cast(j.period_ps as bigint) as period_ps,
    -- of the second job's
    cast(j.other_period_ps as bigint) as other_period_ps,
    -- the common period, after rounding; NULL without one of at most 20 of the longer
    cast(
        least(j.period_ps, j.other_period_ps) * (j.longer_units // nullif(j.common, 0)) as bigint
    ) as common_period_ps,
    -- demand of the first job's busiest device, mean; NULL where it is not known
    j.mean_bytes_per_s,
    -- of the second job's
    j.other_mean_bytes_per_s,
    -- capacity of the shared link, C; NULL where none is set, or each run has another
    j.capacity as capacity_bytes_per_s,
    -- score if both periods begin together
    b.in_phase_score,
    -- greatest score of any shift
    b.best_score,
    -- the shortest delay of the second job that gives it, of its period
    cast(b.shift as double) / nullif(j.other_units, 0) as shift_ratio,
    -- why there is no score
    j.reason
from judged as j
left join best as b
    on b.run_id = j.run_id and b.phase is not distinct from j.phase
    and b.other_run_id = j.other_run_id and b.other_phase is not distinct from j.other_phase
