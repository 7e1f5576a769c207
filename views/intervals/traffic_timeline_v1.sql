-- one row per run, axis and bin of time
-- The bytes that all traced devices send, each transfer's spread evenly over its time in flight.
-- Bins begin at the start of the run's first transfer and are as wide as the smallest of 1, 2, 5,
-- 10, 20, … ps that makes at most 500 of them; every axis that sends has each bin. Bins add up to
-- traffic_volume's wire bytes. NULL in bins in which a transfer of unknown bytes is in flight.
with sent as (
    select run_id, axis, start_ps, start_ps + duration_ps as end_ps, wire_bytes
    from _collective_wire_v1
    where wire_bytes is distinct from 0
),

spans as (
    select
        run_id,
        min(start_ps) as first_ps,
        greatest(max(end_ps) - min(start_ps), 1) as span_ps
    from sent
    group by run_id
),

steps as (
    select cast(step as bigint) as step from (values (1), (2), (5)) as three (step)
),

tens as (
    select cast(ten as bigint) as ten
    from (
        values (1), (10), (100), (1000), (10000), (100000), (1000000), (10000000), (100000000),
        (1000000000), (10000000000), (100000000000), (1000000000000), (10000000000000),
        (100000000000000), (1000000000000000), (10000000000000000), (100000000000000000)
    ) as powers (ten)
),

widths as (
    select
        s.run_id, s.first_ps, s.span_ps,
        min(case when t.ten * w.step >= (s.span_ps + 499) // 500 then t.ten * w.step end)
            as width_ps
    from spans as s
    cross join tens as t
    cross join steps as w
    group by s.run_id, s.first_ps, s.span_ps
),

-- The last bin of a transfer holds its last instant: an end on an edge is in the bin before it. One
-- without length at the very end is in the run's last bin.
placed as (
    select
        s.run_id, s.axis, s.wire_bytes, w.width_ps,
        s.start_ps - w.first_ps as start_ps,
        s.end_ps - w.first_ps as end_ps,
        least(s.start_ps - w.first_ps, w.span_ps - 1) // nullif(w.width_ps, 0) as first_bin,
        least(greatest(s.end_ps - w.first_ps - 1, s.start_ps - w.first_ps), w.span_ps - 1)
            // nullif(w.width_ps, 0) as last_bin
    from sent as s
    inner join widths as w on w.run_id = s.run_id
),

-- Bytes that transfers of the same first and last bin leave in the first, in the last, and in each
-- bin between.
stretches as (
    select
        run_id, axis, first_bin, last_bin,
        count(*) as transfers,
        count(*) - count(wire_bytes) as unknowns,
        sum(
            case
                when first_bin = last_bin then wire_bytes
                else wire_bytes * ((first_bin + 1) * width_ps - start_ps)
                    / nullif(cast(end_ps - start_ps as double), 0)
            end
        ) as first_bytes,
        sum(
            case
                when first_bin = last_bin then 0
                else wire_bytes * (end_ps - last_bin * width_ps)
                    / nullif(cast(end_ps - start_ps as double), 0)
            end
        ) as last_bytes,
        sum(wire_bytes * width_ps / nullif(cast(end_ps - start_ps as double), 0)) as each_bytes
    from placed
    group by run_id, axis, first_bin, last_bin
),

digits as (
    select n from (values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) as ten (n)
),

bins as (
    select a.n * 100 + b.n * 10 + c.n as bin_index
    from digits as a
    cross join digits as b
    cross join digits as c
    where a.n < 5
),

axes as (
    select run_id, axis from sent group by run_id, axis
),

-- Bytes of one bin alone, and bytes that begin (or end, below zero) to be in this bin and all later
-- ones.
changes as (
    select
        a.run_id, a.axis, b.bin_index, cast(0 as double) as own_bytes, cast(0 as double) as each_bytes,
        cast(0 as bigint) as passing, cast(0 as bigint) as unknowns
    from axes as a
    cross join bins as b
    union all
    select run_id, axis, first_bin, first_bytes, 0, 0, unknowns
    from stretches
    union all
    select run_id, axis, last_bin, last_bytes, 0, 0, 0
    from stretches
    union all
    select run_id, axis, last_bin + 1, 0, 0, 0, -unknowns
    from stretches
    union all
    select run_id, axis, first_bin + 1, 0, each_bytes, transfers, 0
    from stretches
    where last_bin > first_bin
    union all
    select run_id, axis, last_bin, 0, -each_bytes, -transfers, 0
    from stretches
    where last_bin > first_bin
),

summed as (
    select
        run_id, axis, bin_index,
        sum(own_bytes) as own_bytes,
        sum(each_bytes) as each_bytes,
        sum(passing) as passing,
        sum(unknowns) as unknowns
    from changes
    group by run_id, axis, bin_index
),

running as (
    select
        run_id, axis, bin_index, own_bytes,
        sum(each_bytes) over (partition by run_id, axis order by bin_index) as each_bytes,
        sum(passing) over (partition by run_id, axis order by bin_index) as passing,
        sum(unknowns) over (partition by run_id, axis order by bin_index) as unknowns
    from summed
)

select
    -- run
    r.run_id,
    -- mesh axes joined by +, or mixed or unclassified
    r.axis,
    -- number of the bin, from 0
    cast(r.bin_index as bigint) as bin_index,
    -- start of the bin
    cast(w.first_ps + r.bin_index * w.width_ps as bigint) as start_ps,
    -- length of the bin
    cast(w.width_ps as bigint) as duration_ps,
    -- bytes sent on the wire in the bin
    cast(
        case
            when r.unknowns > 0 then null
            when r.passing > 0 then r.own_bytes + r.each_bytes
            else r.own_bytes
        end as double
    ) as bytes
from running as r
inner join widths as w on w.run_id = r.run_id
where r.bin_index * w.width_ps < w.span_ps
