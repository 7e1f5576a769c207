-- one row per run, device, phase, axis and bin of the period
-- What a device sends in the course of a step, over all steps of a phase: the input of schedulers for
-- networks that several jobs share. A step's period ends with its window and begins period_ps
-- (device_time) before. Bin b, from 0 to 99, holds the mean of the wire bytes a second while between
-- b/100 and (b + 1)/100 of the period has passed: the bytes of all steps in the bin over the time of
-- all steps in it. A transfer is of the step that it started in, spread evenly over its time in
-- flight; what lies outside its step's period is left out. One that ends on an edge of a bin is in
-- the bin before it, one without length in the bin that starts there. Every axis that sends in a
-- phase has all bins. NULL in bins in which a transfer of unknown bytes is in flight. SparseCores, devices
-- without steps beside ones with steps, and steps whose period is not known or 0, have no rows.
with timed as (
    select *, max(step) over (partition by run_id) as last_step
    from device_time_v1
    where core is distinct from 'sparsecore'
),

periods as (
    select
        run_id, device_id, request, step, phase, period_ps,
        start_ps + window_ps - period_ps as begin_ps
    from timed
    where period_ps > 0 and (step is not null or last_step is null)
),

ranked as (
    select
        run_id, device_id, phase, period_ps,
        row_number() over (partition by run_id, device_id, phase order by period_ps) as place,
        count(*) over (partition by run_id, device_id, phase) as places
    from periods
),

steps as (
    select
        run_id, device_id, phase,
        count(*) as step_count,
        sum(period_ps) as sum_ps,
        max(case when place = (places + 1) // 2 then period_ps end) as lower_ps,
        max(case when place = places // 2 + 1 then period_ps end) as upper_ps
    from ranked
    group by run_id, device_id, phase
),

-- Hundredths of the period, so that edges of bins are whole numbers of picoseconds.
sent as (
    select
        p.run_id, p.device_id, p.phase, c.axis, c.wire_bytes, p.period_ps,
        100 * c.duration_ps as length,
        greatest(100 * (c.start_ps - p.begin_ps), 0) as start,
        least(100 * (c.start_ps + c.duration_ps - p.begin_ps), 100 * p.period_ps) as finish
    from _collective_wire_v1 as c
    inner join periods as p
        on p.run_id = c.run_id and p.device_id = c.device_id
        and p.request is not distinct from c.request and p.step is not distinct from c.step
    where c.wire_bytes is distinct from 0
),

placed as (
    select
        *,
        least(start // nullif(period_ps, 0), 99) as first_bin,
        least(greatest(finish - 1, start) // nullif(period_ps, 0), 99) as last_bin
    from sent
    where finish >= start
),

-- Bytes that transfers of the same first and last bin leave in the first, in the last, and in each
-- bin between.
stretches as (
    select
        run_id, device_id, phase, axis, first_bin, last_bin,
        count(*) as transfers,
        count(*) - count(wire_bytes) as unknowns,
        sum(
            case
                when length = 0 then wire_bytes
                else wire_bytes * (least(finish, (first_bin + 1) * period_ps) - start)
                    / nullif(cast(length as double), 0)
            end
        ) as first_bytes,
        sum(
            case
                when first_bin = last_bin then 0
                else wire_bytes * (finish - last_bin * period_ps)
                    / nullif(cast(length as double), 0)
            end
        ) as last_bytes,
        sum(wire_bytes * period_ps / nullif(cast(length as double), 0)) as each_bytes
    from placed
    group by run_id, device_id, phase, axis, first_bin, last_bin
),

digits as (
    select n from (values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) as ten (n)
),

bins as (
    select a.n * 10 + b.n as bin_index
    from digits as a
    cross join digits as b
),

axes as (
    select run_id, device_id, phase, axis
    from stretches
    group by run_id, device_id, phase, axis
),

-- Bytes of one bin alone, and bytes that begin (or end, below zero) to be in this bin and all later
-- ones.
changes as (
    select
        a.run_id, a.device_id, a.phase, a.axis, b.bin_index, cast(0 as double) as own_bytes,
        cast(0 as double) as each_bytes, cast(0 as bigint) as passing, cast(0 as bigint) as unknowns
    from axes as a
    cross join bins as b
    union all
    select run_id, device_id, phase, axis, first_bin, first_bytes, 0, 0, unknowns
    from stretches
    union all
    select run_id, device_id, phase, axis, last_bin, last_bytes, 0, 0, 0
    from stretches
    union all
    select run_id, device_id, phase, axis, last_bin + 1, 0, 0, 0, -unknowns
    from stretches
    union all
    select run_id, device_id, phase, axis, first_bin + 1, 0, each_bytes, transfers, 0
    from stretches
    where last_bin > first_bin
    union all
    select run_id, device_id, phase, axis, last_bin, 0, -each_bytes, -transfers, 0
    from stretches
    where last_bin > first_bin
),

summed as (
    select
        run_id, device_id, phase, axis, bin_index,
        sum(own_bytes) as own_bytes,
        sum(each_bytes) as each_bytes,
        sum(passing) as passing,
        sum(unknowns) as unknowns
    from changes
    group by run_id, device_id, phase, axis, bin_index
),

running as (
    select
        run_id, device_id, phase, axis, bin_index, own_bytes,
        sum(each_bytes) over (
            partition by run_id, device_id, phase, axis order by bin_index
        ) as each_bytes,
        sum(passing) over (
            partition by run_id, device_id, phase, axis order by bin_index
        ) as passing,
        sum(unknowns) over (
            partition by run_id, device_id, phase, axis order by bin_index
        ) as unknowns
    from summed
),

rates as (
    select
        r.run_id, r.device_id, r.phase, r.axis, r.bin_index, s.step_count,
        s.lower_ps + (s.upper_ps - s.lower_ps) // 2 as period_ps,
        case
            when r.unknowns > 0 then null
            when r.passing > 0 then r.own_bytes + r.each_bytes
            else r.own_bytes
        end * 1e14 / nullif(cast(s.sum_ps as double), 0) as bytes_per_s
    from running as r
    inner join steps as s
        on s.run_id = r.run_id and s.device_id = r.device_id and s.phase is not distinct from r.phase
    where r.bin_index < 100
),

peaks as (
    select
        run_id, device_id, phase, axis,
        case when count(bytes_per_s) = count(*) then max(bytes_per_s) end as peak_bytes_per_s
    from rates
    group by run_id, device_id, phase, axis
),

duties as (
    select
        r.run_id, r.device_id, r.phase, r.axis,
        sum(case when r.bytes_per_s > 0.05e0 * p.peak_bytes_per_s then 1 else 0 end) as busy_bins
    from rates as r
    inner join peaks as p
        on p.run_id = r.run_id and p.device_id = r.device_id
        and p.phase is not distinct from r.phase and p.axis = r.axis
    group by r.run_id, r.device_id, r.phase, r.axis
)

select
    -- run
    r.run_id,
    -- device
    r.device_id,
    -- phase of the steps; NULL outside every marker
    r.phase,
    -- mesh axes joined by +, or mixed or unclassified
    r.axis,
    -- hundredth of the period, from 0
    cast(r.bin_index as bigint) as bin,
    -- mean wire bytes a second
    r.bytes_per_s,
    -- steps of the device in the phase, with such a transfer or without
    cast(r.step_count as bigint) as step_count,
    -- median of their periods, rounded down to the picosecond
    cast(r.period_ps as bigint) as period_ps,
    -- the largest of the axis' bins; NULL where one is not known
    p.peak_bytes_per_s,
    -- share of bins above 5 % of that; NULL where a bin is not known
    case
        when p.peak_bytes_per_s is not null then cast(d.busy_bins as double) / 100
    end as duty_ratio
from rates as r
inner join peaks as p
    on p.run_id = r.run_id and p.device_id = r.device_id
    and p.phase is not distinct from r.phase and p.axis = r.axis
inner join duties as d
    on d.run_id = r.run_id and d.device_id = r.device_id
    and d.phase is not distinct from r.phase and d.axis = r.axis
