"""Queries that must return no rows on any warehouse: where views and tables must agree."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlahouse.sql.check.audit import Audit
from xlahouse.sql.check.audits_busy import BUSY_AUDITS
from xlahouse.sql.check.audits_time import TIME_AUDITS
from xlahouse.sql.check.audits_traffic import TRAFFIC_AUDITS
from xlahouse.sql.library import shipped

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse


@dataclass(frozen=True)
class AuditFinding:
    """An audit that found rows: how many, and the first as text."""

    audit: Audit  # that found rows
    rows: int  # their number
    example: str  # the first row


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
            select run_id, device_id,
                case when count(collectives) = count(*) then sum(collectives) end as collectives
            from traffic_volume_v1 group by run_id, device_id
        ),
        seen as (
            select run_id, device_id, count(*) as collectives
            from collectives group by run_id, device_id
            union all
            select run_id, device_id,
                case when count(executions) = count(*) then sum(executions) end
            from program_collectives group by run_id, device_id
        )
        select seen.run_id, seen.device_id, seen.collectives, said.collectives as in_volume
        from seen
        left join said on said.run_id = seen.run_id and said.device_id = seen.device_id
        where said.collectives is distinct from seen.collectives
        """,
    ),
    Audit(
        "program_memory_adds_up",
        "a program holds more than is allocated, or what it holds at its peak is not that peak",
        """
        with held as (
            select run_id, world, program_id, memory_space_id, sum(bytes) as bytes
            from memory_at_peak_v1 group by run_id, world, program_id, memory_space_id
        )
        select p.run_id, p.module, p.memory_space_id, p.peak_bytes, p.total_bytes, h.bytes
        from program_memory_v1 as p
        left join held as h
            on h.run_id = p.run_id and h.world = p.world and h.program_id = p.program_id
            and h.memory_space_id = p.memory_space_id
        where p.peak_bytes > p.total_bytes or p.peak_bytes <> coalesce(h.bytes, 0)
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
            cross join (
                values ('ring'), ('bidirectional_ring'), ('direct'), ('compiled')
            ) as a (algorithm)
            where v.wire_bytes > 0 and (
                a.algorithm <> 'compiled'
                or v.run_id in (select run_id from instructions where collective_emitter is not null)
            )
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
        "self_time_fits_its_line",
        "the self times of a line's ops exceed the time of the line, or one is not within its op's time",
        """
        -- A plane may have several lines of one name, on each of which ops nest by themselves. Coverage
        -- counts streams of one name, of a GPU, as one. Asynchronous ops overlap and do not nest.
        with lines_of as (
            select
                d.run_id, d.device_id, c.line, count(*) as lines,
                bool_or(d.plane like '/device:GPU:%') as is_stream
            from coverage as c
            join devices as d on d.run_id = c.run_id and d.plane = c.plane
            group by d.run_id, d.device_id, c.line
        )
        select o.run_id, o.device_id, o.line, sum(o.self_ps) as self_ps,
            max(o.start_ps + o.duration_ps) - min(o.start_ps) as line_ps, max(l.lines) as lines
        from ops as o
        left join lines_of as l
            on l.run_id = o.run_id and l.device_id = o.device_id and l.line = o.line
        group by o.run_id, o.device_id, o.line
        having (
                sum(o.self_ps) > (max(o.start_ps + o.duration_ps) - min(o.start_ps))
                    * coalesce(max(l.lines), 1)
                and not coalesce(bool_or(l.is_stream), false)
                and not coalesce(bool_and(o.is_async), false)
            )
            or min(o.self_ps) < 0
            or max(o.self_ps - o.duration_ps) > 0
        """,
    ),
    Audit(
        "roofline_holds_every_op",
        "compute ops are lost or doubled in roofline",
        """
        -- An op that ran as kernels of several categories, on a GPU, has the first of them there.
        with kept as (
            select *, min(category) over (partition by run_id, program_id, op) as first_category
            from ops
            where line is distinct from 'Async XLA Ops' and line is distinct from 'Steps'
                and category not in ('control', 'wait') and program_id is not null
                and coalesce(phase, 'none') not in ('warmup', 'compile')
                and (kernel is not null or not regexp_matches(coalesce(opcode, ''), '-(start|update|done)$'))
        ),
        seen as (
            select run_id, program_id, count(*) as executions, sum(duration_ps) as observed_ps
            from kept
            where first_category = 'compute'
            group by run_id, program_id
        ),
        said as (
            select run_id, program_id, sum(executions) as executions, sum(observed_ps) as observed_ps
            from roofline_v2
            where category = 'compute' and not regexp_matches(coalesce(opcode, ''), '-start$')
            group by run_id, program_id
        )
        select s.run_id, s.program_id, s.executions, r.executions as in_roofline
        from seen as s
        left join said as r on r.run_id = s.run_id and r.program_id = s.program_id
        where r.executions is distinct from s.executions
            or r.observed_ps is distinct from s.observed_ps
        """,
    ),
    Audit(
        "breakdowns_hold_self_time",
        "breakdowns by op, layer and program do not add up to the same self time",
        """
        with seen as (
            select run_id, phase, sum(self_ps) as self_ps from ops
            where coalesce(line, '') not in ('Steps', 'Async XLA Ops') group by run_id, phase
        ),
        by_op as (select run_id, phase, sum(self_ps) as self_ps from op_profile_v1 group by all),
        by_layer as (
            select run_id, phase, sum(self_ps) as self_ps from layer_breakdown_v1 group by all
        ),
        by_program as (
            select run_id, phase,
                sum(compute_ps + collective_ps + copy_ps + wait_ps + control_ps) as self_ps
            from module_breakdown_v1 group by all
        )
        select s.run_id, s.phase, s.self_ps, o.self_ps as by_op_ps, l.self_ps as by_layer_ps,
            p.self_ps as by_program_ps
        from seen as s
        left join by_op as o on o.run_id = s.run_id and o.phase is not distinct from s.phase
        left join by_layer as l on l.run_id = s.run_id and l.phase is not distinct from s.phase
        left join by_program as p on p.run_id = s.run_id and p.phase is not distinct from s.phase
        where o.self_ps is distinct from s.self_ps or l.self_ps is distinct from s.self_ps
            or p.self_ps is distinct from s.self_ps
        """,
    ),
    Audit(
        "mfu_takes_every_window",
        "the windows of mfu are not those of comm_compute",
        """
        select c.run_id, c.phase, c.window_ps, m.window_ps as in_mfu_ps
        from comm_compute_v2 as c
        left join mfu_v2 as m on m.run_id = c.run_id and m.phase is not distinct from c.phase
        where m.window_ps is distinct from c.window_ps
        """,
    ),
    Audit(
        "mfu_is_a_share",
        "mfu is not in 0 to 1",
        """
        select run_id, phase, model_flops, available_flops, mfu_ratio
        from mfu_v2
        where not mfu_ratio between 0 and 1
        """,
    ),
    Audit(
        "setups_hold_every_run",
        "measured runs are lost or doubled in setup_summary",
        """
        with counted as (
            select count(*) as runs, 0 as in_setups from runs
            where source is null or source not in ('compiled', 'predicted')
            union all
            select 0, coalesce(sum(runs), 0) from setup_summary_v2
        ),
        summed as (select sum(runs) as runs, sum(in_setups) as in_setups from counted)
        select runs, in_setups from summed where in_setups <> runs
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
    *TRAFFIC_AUDITS,
    *TIME_AUDITS,
    *BUSY_AUDITS,
)


def shared_views() -> list[str]:
    """The views below two audits or more: most of the time goes to them."""
    library = shipped()
    return library.shared(set(re.findall(r"\w+", a.sql)) & set(library.views) for a in AUDITS)


def run_audits(warehouse: Warehouse, audits: Iterable[Audit] = AUDITS) -> list[AuditFinding]:
    """The audits that found rows, in their order.

    Raises:
        WarehouseError: a file of the warehouse vanished or is damaged.
    """
    findings = []
    for audit in audits:
        rows = warehouse.query(audit.sql).dicts()
        if rows:
            example = ", ".join(f"{name}={value}" for name, value in rows[0].items())
            findings.append(AuditFinding(audit, len(rows), example))
    return findings
