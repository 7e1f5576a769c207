-- one row per run, phase, algorithm and directed link between neighbouring chips
-- The bytes of traffic_matrix on each link. Bytes go along x, then y, then z, each the shorter way;
-- an exact half of an axis with links around it splits them both ways. Cores of one chip use no
-- link. Only traced devices send: sources_seen is the number of them that use the link. A query
-- must choose one of the algorithms. bytes_per_s is over the longest time, over the link's sources,
-- in which a source has transfers in flight on the axes that it sends over the link: the union of
-- these, or the sum of their unions over several axes where that is less than all of the source's
-- time in flight. So utilization is a mean over that time, and low where transfers are in flight
-- and wait. Where links are not known, or a target is not, one row has no link and no bytes, and
-- topology_problem states why. A compiled run has bytes, of one prefill and one decode step, and no
-- times.
with edges as (
    select
        run_id, phase, algorithm, axis, source_device_id, target_device_id,
        target_problem,
        case when count(bytes) = count(*) then sum(bytes) end as bytes
    from traffic_matrix_v1
    group by run_id, phase, algorithm, axis, source_device_id, target_device_id, target_problem
),

placed as (
    select
        e.run_id, e.phase, e.algorithm, e.axis, e.source_device_id, e.bytes,
        case
            when s.topology_problem is not null then s.topology_problem
            when e.target_problem is not null then e.target_problem
            when s.run_id is null or t.run_id is null
                then 'the source or the target of a transfer is not known'
        end as topology_problem,
        s.x_size, s.y_size, s.z_size, s.x_wraps, s.y_wraps, s.z_wraps,
        s.x, s.y, s.z, t.x as to_x, t.y as to_y, t.z as to_z
    from edges as e
    left join _chip_place_v1 as s on s.run_id = e.run_id and s.device_id = e.source_device_id
    left join _chip_place_v1 as t on t.run_id = e.run_id and t.device_id = e.target_device_id
),

-- An edge's way along each axis, with the other coordinates: along earlier axes they are the
-- target's by then.
axes as (
    select
        run_id, phase, algorithm, axis, source_device_id, bytes, x_size, y_size,
        x_size as size, x_wraps as wraps, x as origin, to_x as target,
        1 as x_moves, 0 as y_moves, 0 as z_moves, 0 as x, y, z
    from placed
    where topology_problem is null
    union all
    select
        run_id, phase, algorithm, axis, source_device_id, bytes, x_size, y_size,
        y_size, y_wraps, y, to_y, 0, 1, 0, to_x, 0, z
    from placed
    where topology_problem is null
    union all
    select
        run_id, phase, algorithm, axis, source_device_id, bytes, x_size, y_size,
        z_size, z_wraps, z, to_z, 0, 0, 1, to_x, to_y, 0
    from placed
    where topology_problem is null
),

measured as (
    select
        *,
        (target - origin + size) % nullif(size, 0) as ahead,
        size - (target - origin + size) % nullif(size, 0) as behind
    from axes
    where target <> origin
),

ways as (
    select
        *,
        1 as side,
        ahead as steps,
        case when wraps and ahead = behind then 0.5e0 else 1 end as share
    from measured
    where (wraps and ahead <= behind) or (not wraps and target > origin)
    union all
    select
        *,
        -1,
        behind,
        case when wraps and ahead = behind then 0.5e0 else 1 end
    from measured
    where (wraps and behind <= ahead) or (not wraps and target < origin)
),

crossed as (
    select
        w.run_id, w.phase, w.algorithm, w.axis, w.source_device_id, w.bytes * w.share as bytes,
        w.x_size, w.y_size, w.x_moves, w.y_moves, w.z_moves, w.x, w.y, w.z,
        (w.origin + w.side * h.hop + w.size) % nullif(w.size, 0) as here,
        (w.origin + w.side * (h.hop + 1) + w.size) % nullif(w.size, 0) as there
    from ways as w
    inner join _hop_v1 as h on h.steps = w.steps
),

numbered as (
    select
        run_id, phase, algorithm, axis, source_device_id, bytes,
        x + here * x_moves + x_size * (y + here * y_moves + y_size * (z + here * z_moves))
            as source_chip,
        x + there * x_moves + x_size * (y + there * y_moves + y_size * (z + there * z_moves))
            as target_chip
    from crossed
),

links as (
    select
        run_id, phase, algorithm, axis, source_device_id, source_chip, target_chip,
        case when count(bytes) = count(*) then sum(bytes) end as bytes
    from numbered
    group by run_id, phase, algorithm, axis, source_device_id, source_chip, target_chip
),

by_source as (
    select
        l.run_id, l.phase, l.algorithm, l.source_chip, l.target_chip, l.source_device_id,
        case when count(l.bytes) = count(*) then sum(l.bytes) end as bytes,
        least(sum(t.in_flight_ps), max(e.in_flight_ps)) as in_flight_ps
    from links as l
    left join _in_flight_v1 as t
        on t.run_id = l.run_id and t.device_id = l.source_device_id
        and t.phase is not distinct from l.phase and t.axis = l.axis
    left join _in_flight_v1 as e
        on e.run_id = l.run_id and e.device_id = l.source_device_id
        and e.phase is not distinct from l.phase and e.axis is null
    group by l.run_id, l.phase, l.algorithm, l.source_chip, l.target_chip, l.source_device_id
),

peaks as (
    select run_id, min(peak_ici_bytes_per_s) as peak_ici_bytes_per_s
    from hardware_peaks_v1
    group by run_id
),

topologies as (
    select
        run_id,
        min(x_size) as x_size,
        min(y_size) as y_size,
        min(z_size) as z_size,
        bool_and(is_flat) as is_flat
    from _chip_place_v1
    group by run_id
),

summed as (
    select
        run_id, phase, algorithm, source_chip, target_chip,
        count(*) as sources_seen,
        case when count(bytes) = count(*) then sum(bytes) end as bytes,
        max(in_flight_ps) as in_flight_ps,
        cast(null as varchar) as topology_problem
    from by_source
    group by run_id, phase, algorithm, source_chip, target_chip
    union all
    select
        run_id, phase, algorithm, cast(null as bigint), cast(null as bigint),
        count(distinct source_device_id), cast(null as double), cast(null as bigint),
        topology_problem
    from placed
    where topology_problem is not null
    group by run_id, phase, algorithm, topology_problem
),

compared as (
    select
        s.*,
        max(s.bytes) over (partition by s.run_id, s.phase, s.algorithm) as most_bytes
    from summed as s
)

select
    -- run
    c.run_id,
    -- phase; NULL outside every marker
    c.phase,
    -- ring, bidirectional_ring, direct or compiled
    c.algorithm,
    -- shape of the chips, such as 2x4, or 4x4x4 where slices have three dimensions; NULL where links
    -- are not known
    case
        when c.topology_problem is null
            then concat_ws(
                'x', cast(t.x_size as varchar), cast(t.y_size as varchar),
                case when not t.is_flat then cast(t.z_size as varchar) end
            )
    end as topology,
    -- number of the chip that the link leads from: x + X (y + Y z)
    cast(c.source_chip as bigint) as source_chip,
    -- number of the chip that it leads to
    cast(c.target_chip as bigint) as target_chip,
    -- place of the chip that it leads from, as (x,y,z)
    case
        when c.topology_problem is null
            then concat(
                '(', cast(c.source_chip % nullif(t.x_size, 0) as varchar), ',',
                cast(c.source_chip // nullif(t.x_size, 0) % nullif(t.y_size, 0) as varchar), ',',
                cast(c.source_chip // nullif(t.x_size * t.y_size, 0) as varchar), ')'
            )
    end as source_place,
    -- place of the chip that it leads to
    case
        when c.topology_problem is null
            then concat(
                '(', cast(c.target_chip % nullif(t.x_size, 0) as varchar), ',',
                cast(c.target_chip // nullif(t.x_size, 0) % nullif(t.y_size, 0) as varchar), ',',
                cast(c.target_chip // nullif(t.x_size * t.y_size, 0) as varchar), ')'
            )
    end as target_place,
    -- bytes sent over the link in this direction
    cast(c.bytes as double) as bytes,
    -- traced devices whose bytes pass over it
    cast(c.sources_seen as bigint) as sources_seen,
    -- the time that bytes_per_s is over; NULL in a compiled run
    cast(c.in_flight_ps as bigint) as in_flight_ps,
    -- bytes / that time
    c.bytes * 1e12 / nullif(cast(c.in_flight_ps as double), 0) as link_bytes_per_s,
    -- bytes / that time, over the peak of one link, one way
    c.bytes * 1e12 / nullif(cast(c.in_flight_ps as double), 0) / nullif(p.peak_ici_bytes_per_s, 0)
        as utilization_ratio,
    -- no link of the phase and algorithm has more bytes; NULL where bytes are NULL
    c.bytes = c.most_bytes as is_busiest,
    -- why links are not known; NULL where they are known
    c.topology_problem
from compared as c
left join topologies as t on t.run_id = c.run_id
left join peaks as p on p.run_id = c.run_id
