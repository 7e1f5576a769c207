"""Audits of the traffic views: the sums of one view agree with another."""

from __future__ import annotations

from xlahouse.sql.check.audit import Audit

# A compiled run has bytes and no times: it has no row in the views that these compare.
TRAFFIC_AUDITS = (
    Audit(
        "expectation_measures_volume",
        "the measured payload of expected_traffic is not that of traffic_volume",
        """
        with said as (
            select run_id, sum(measured_payload_bytes) as payload_bytes,
                sum(measured_count) as collectives
            from expected_traffic_v1 group by run_id
        ),
        seen as (
            select run_id, sum(payload_bytes) as payload_bytes, sum(collectives) as collectives
            from traffic_volume_v1
            where run_id in (select run_id from runs where source is distinct from 'compiled')
            group by run_id
            having count(payload_bytes) = count(*)
        )
        select s.run_id, s.collectives, e.collectives as in_expected_traffic,
            s.payload_bytes, e.payload_bytes as in_expected_traffic_bytes
        from seen as s
        left join said as e on e.run_id = s.run_id
        where e.collectives is distinct from s.collectives
            or e.payload_bytes is distinct from s.payload_bytes
        """,
    ),
    Audit(
        "timeline_holds_every_byte",
        "the bins of an axis do not add up to the wire bytes of traffic_volume",
        """
        with said as (
            select run_id, axis, sum(bytes) as bytes,
                max(case when bytes is null then 1 else 0 end) as is_unknown
            from traffic_timeline_v1 group by run_id, axis
        ),
        seen as (
            select run_id, axis, sum(wire_bytes) as wire_bytes
            from traffic_volume_v1
            where run_id in (select run_id from runs where source is distinct from 'compiled')
            group by run_id, axis
            having count(wire_bytes) = count(*) and sum(wire_bytes) > 0
        )
        select s.run_id, s.axis, s.wire_bytes, t.bytes as in_timeline
        from seen as s
        left join said as t on t.run_id = s.run_id and t.axis = s.axis
        where t.run_id is null or t.is_unknown = 1
            or abs(t.bytes - s.wire_bytes) > 1e-9 * s.wire_bytes
        """,
    ),
    Audit(
        "bursts_hold_every_byte",
        "the bursts of a run do not add up to the wire bytes of traffic_volume",
        """
        with said as (
            select run_id, scope, axis, sum(bytes) as bytes
            from traffic_burst_v2 where scope in ('device', 'run') group by run_id, scope, axis
        ),
        seen as (
            select run_id, axis, sum(wire_bytes) as wire_bytes
            from traffic_volume_v1
            where run_id in (select run_id from runs where source is distinct from 'compiled')
            group by run_id, axis
            having count(wire_bytes) = count(*) and sum(wire_bytes) > 0
        )
        select s.run_id, s.axis, b.scope, s.wire_bytes, b.bytes as in_bursts
        from seen as s
        left join said as b on b.run_id = s.run_id and b.axis = s.axis
        where b.run_id is null or b.bytes is null
            or abs(b.bytes - s.wire_bytes) > 1e-9 * s.wire_bytes
        """,
    ),
    Audit(
        "summaries_hold_every_transfer",
        "collectives or instances are lost or doubled in a summary of latency or bandwidth",
        """
        with slow as (
            select run_id, sum(count) as said from collective_latency_summary_v2 group by run_id
        ),
        fast as (
            select run_id, sum(count + bound_count + unknown_count) as said
            from bandwidth_summary_v3 group by run_id
        ),
        seen as (
            select run_id, sum(collectives) as seen
            from traffic_volume_v1
            where run_id in (select run_id from runs where source is distinct from 'compiled')
            group by run_id
        ),
        met as (select run_id, count(*) as seen from collective_bandwidth_v3 group by run_id)
        select s.run_id, 'collective_latency_summary' as summary, s.seen, l.said
        from seen as s left join slow as l on l.run_id = s.run_id
        where l.said is distinct from s.seen
        union all
        select m.run_id, 'bandwidth_summary', m.seen, f.said
        from met as m left join fast as f on f.run_id = m.run_id
        where f.said is distinct from m.seen
        """,
    ),
    Audit(
        "no_link_exceeds_its_peak",
        "the busiest link of a collective is used above 1.02 of its peak, or below 0",
        """
        select run_id, instance, utilization_ratio
        from collective_bandwidth_v3
        where not utilization_ratio between 0 and 1.02
        """,
    ),
    Audit(
        "links_conserve_bytes",
        "bytes that leave a chip over its links, less bytes that enter, are not those that its devices"
        " send less those that they receive",
        """
        with crossed as (
            select run_id, phase, algorithm, source_chip, target_chip, bytes from link_traffic_v1
        ),
        ends as (
            select run_id, phase, algorithm, source_chip as chip, bytes, bytes as amount
            from crossed
            union all
            select run_id, phase, algorithm, target_chip, -bytes, bytes from crossed
        ),
        links as (
            select run_id, phase, algorithm, chip, sum(bytes) as bytes, sum(amount) as amount
            from ends
            group by run_id, phase, algorithm, chip
            having count(bytes) = count(*)
        ),
        places as (
            select run_id, device_id, x + x_size * (y + y_size * z) as chip
            from _chip_place_v1
            where topology_problem is null
        ),
        edges as (
            select run_id, phase, algorithm, source_device_id, target_device_id, bytes
            from traffic_matrix_v1
            where target_device_id is not null
        ),
        moves as (
            select run_id, phase, algorithm, source_device_id as device_id, bytes from edges
            union all
            select run_id, phase, algorithm, target_device_id, -bytes from edges
        ),
        chips as (
            select m.run_id, m.phase, m.algorithm, p.chip, sum(m.bytes) as bytes,
                count(*) - count(m.bytes) as unknown
            from moves as m
            inner join places as p on p.run_id = m.run_id and p.device_id = m.device_id
            group by m.run_id, m.phase, m.algorithm, p.chip
        )
        select l.run_id, l.phase, l.algorithm, l.chip, l.bytes, c.bytes as in_matrix
        from links as l
        left join chips as c
            on c.run_id = l.run_id and c.phase is not distinct from l.phase
            and c.algorithm = l.algorithm and c.chip = l.chip
        where coalesce(c.unknown, 0) = 0 and l.chip is not null
            and abs(l.bytes - coalesce(c.bytes, 0)) > 1e-9 * l.amount
        """,
    ),
)
