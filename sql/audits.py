"""Queries that must return no rows on any warehouse: what our own numbers have to agree on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse


@dataclass(frozen=True)
class Audit:
    """A query for bad rows, and what a row means."""

    name: str
    meaning: str
    sql: str


@dataclass(frozen=True)
class Finding:
    """An audit that found rows: how many, and the first as text."""

    audit: Audit
    rows: int
    example: str


AUDITS = (
    Audit(
        "coverage_adds_up",
        "events read on a line are not those written plus those rejected",
        """
        select run_id, source, plane, line, events_read, rows_written, events_rejected
        from coverage
        where events_read <> rows_written + events_rejected
        """,
    ),
    Audit(
        "volume_holds_every_collective",
        "collectives or their payload are lost or doubled in traffic_volume",
        """
        with said as (
            select run_id, device_id, sum(collectives) as collectives
            from traffic_volume_v1 group by run_id, device_id
        ),
        seen as (
            select run_id, device_id, count(*) as collectives
            from collectives group by run_id, device_id
        )
        select seen.run_id, seen.device_id, seen.collectives, said.collectives as in_volume
        from seen
        left join said on said.run_id = seen.run_id and said.device_id = seen.device_id
        where said.collectives is distinct from seen.collectives
        """,
    ),
    Audit(
        "matrix_adds_up",
        "the targets of a source do not add up to its wire bytes",
        """
        with sent as (
            select run_id, phase, axis, kind, algorithm, source_device_id, sum(bytes) as bytes
            from traffic_matrix_v1
            group by run_id, phase, axis, kind, algorithm, source_device_id
        ),
        wanted as (
            select v.*, a.algorithm
            from traffic_volume_v1 as v
            cross join (values ('ring'), ('bidirectional_ring'), ('direct')) as a (algorithm)
            where v.wire_bytes > 0
        )
        select w.run_id, w.phase, w.axis, w.kind, w.algorithm, w.device_id, w.wire_bytes, s.bytes
        from wanted as w
        left join sent as s
            on s.run_id = w.run_id and s.phase is not distinct from w.phase and s.axis = w.axis
            and s.kind = w.kind and s.algorithm = w.algorithm and s.source_device_id = w.device_id
        where s.bytes is null or abs(s.bytes - w.wire_bytes) > 1e-9 * w.wire_bytes
        """,
    ),
    Audit(
        "window_adds_up",
        "compute + exposed + exposed_copy + sync_wait + idle is not the window, or one is negative",
        """
        select run_id, device_id, request, step, window_ps
        from device_time_v1
        where window_ps <> compute_ps + exposed_ps + exposed_copy_ps + sync_wait_ps + idle_ps
            or busy_ps <> compute_ps + exposed_ps + exposed_copy_ps
            or least(compute_ps, exposed_ps, exposed_copy_ps, sync_wait_ps, idle_ps) < 0
            or overlapped_ps > compute_ps or exposed_copy_ps > copy_ps
        """,
    ),
    Audit(
        "busy_intervals_are_merged",
        "intervals of one category overlap or are empty",
        """
        with followed as (
            select
                *,
                lead(start_ps) over (
                    partition by run_id, device_id, request, step, category order by start_ps
                ) as next_start_ps
            from busy_intervals
        )
        select run_id, device_id, request, step, category, start_ps, duration_ps
        from followed
        where duration_ps <= 0 or next_start_ps < start_ps + duration_ps
        """,
    ),
    Audit(
        "busy_intervals_hold_compute",
        "the merged time of compute ops is not that of the compute intervals",
        """
        with reached as (
            select
                run_id, device_id, request, step, start_ps, start_ps + duration_ps as end_ps,
                max(start_ps + duration_ps) over (
                    partition by run_id, device_id, request, step
                    order by start_ps, duration_ps
                    rows between unbounded preceding and 1 preceding
                ) as reached_ps
            from ops
            where category = 'compute'
        ),
        recomputed as (
            select run_id, device_id, request, step,
                sum(greatest(end_ps - greatest(start_ps, coalesce(reached_ps, start_ps)), 0))
                    as busy_ps
            from reached group by run_id, device_id, request, step
        ),
        kept as (
            select run_id, device_id, request, step, sum(duration_ps) as busy_ps
            from busy_intervals where category = 'compute'
            group by run_id, device_id, request, step
        )
        select r.run_id, r.device_id, r.request, r.step, r.busy_ps, k.busy_ps as kept_ps
        from recomputed as r
        left join kept as k
            on k.run_id = r.run_id and k.device_id = r.device_id
            and k.request is not distinct from r.request and k.step is not distinct from r.step
        where coalesce(k.busy_ps, 0) <> r.busy_ps
        """,
    ),
    Audit(
        "instances_fit_their_group",
        "more participants than the group has members, or one device twice",
        """
        select run_id, instance, group_size, count(*) as participants
        from collectives
        where instance is not null
        group by run_id, instance, group_size
        having count(*) > group_size or count(*) > count(distinct device_id)
        """,
    ),
    Audit(
        "times_run_forward",
        "a duration is negative",
        """
        select 'ops' as table_name, run_id, start_ps, duration_ps from ops where duration_ps < 0
        union all
        select 'launches', run_id, start_ps, duration_ps from launches where duration_ps < 0
        union all
        select 'collectives', run_id, start_ps, duration_ps from collectives where duration_ps < 0
        """,
    ),
)


def run_audits(warehouse: Warehouse) -> list[Finding]:
    """The audits that found rows, in their order.

    Raises:
        WarehouseError: a file of the warehouse vanished or is damaged.
    """
    findings = []
    for audit in AUDITS:
        rows = warehouse.query(audit.sql).dicts()
        if rows:
            example = ", ".join(f"{name}={value}" for name, value in rows[0].items())
            findings.append(Finding(audit, len(rows), example))
    return findings
