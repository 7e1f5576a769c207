"""Queries that must return no rows on any warehouse: what our own numbers have to agree on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlahouse.sql.audit import Audit
from xlahouse.sql.audits_traffic import TRAFFIC_AUDITS

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse


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
        "steps_hold_every_window",
        "the windows or busy times of a step's devices do not add up to those of device_time",
        """
        with seen as (
            select run_id, request, step, count(*) as devices,
                sum(window_ps) as window_ps, sum(busy_ps) as busy_ps
            from device_time_v1
            where core is distinct from 'sparsecore'
            group by run_id, request, step
        )
        select s.run_id, s.request, s.step, s.devices, t.devices as in_step_time
        from seen as s
        left join step_time_v1 as t
            on t.run_id = s.run_id and t.request is not distinct from s.request
            and t.step is not distinct from s.step
        left join load_balance_v1 as b
            on b.run_id = s.run_id and b.request is not distinct from s.request
            and b.step is not distinct from s.step
        where t.devices is distinct from s.devices or b.devices is distinct from s.devices
            or abs(t.mean_window_ps * s.devices - s.window_ps) > 1e-9 * s.window_ps
            or abs(b.mean_busy_ps * s.devices - s.busy_ps) > 1e-9 * s.busy_ps
            or t.longest_window_ps < t.mean_window_ps * (1 - 1e-12) or b.imbalance_ratio < -1e-12
        """,
    ),
    Audit(
        "idle_has_causes",
        "the causes of a step's idle time do not add up to that of device_time, or one is negative",
        """
        with told as (
            select run_id, device_id, request, step, sum(idle_ps) as idle_ps,
                min(idle_ps) as least_ps, min(masked_ps) as least_masked_ps
            from bubble_v1
            where cause <> 'between_steps'
            group by run_id, device_id, request, step
        ),
        seen as (
            select run_id, device_id, request, step, sum(idle_ps) as idle_ps
            from device_time_v1
            where core is distinct from 'sparsecore'
            group by run_id, device_id, request, step
        )
        select s.run_id, s.device_id, s.request, s.step, s.idle_ps, t.idle_ps as in_bubble_ps
        from seen as s
        left join told as t
            on t.run_id = s.run_id and t.device_id = s.device_id
            and t.request is not distinct from s.request and t.step is not distinct from s.step
        where t.idle_ps is distinct from s.idle_ps or t.least_ps < 0 or t.least_masked_ps < 0
        """,
    ),
    Audit(
        "scheduling_holds_every_launch",
        "launches are lost or doubled in scheduling, or wait longer for a free device than in all",
        """
        with said as (
            select run_id, sum(launches) as launches from scheduling_v1 group by run_id
        ),
        seen as (
            select run_id, count(*) as launches,
                sum(case when dispatch_ps > queue_ps or dispatch_ps < 0 then 1 else 0 end) as wrong
            from launch_overhead_v1
            group by run_id
        )
        select seen.run_id, seen.launches, said.launches as in_scheduling, seen.wrong
        from seen
        left join said on said.run_id = seen.run_id
        where said.launches is distinct from seen.launches or seen.wrong > 0
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
        "busy_intervals_hold_ops",
        "the merged time of a category's ops is not that of its intervals",
        """
        with spans as (
            select run_id, device_id, request, step, start_ps, start_ps + duration_ps as end_ps,
                case
                    when category in ('compute', 'collective') then category
                    when category in ('copy', 'host_transfer') then 'copy_running'
                    when op = 'barrier-cores' then 'sync_wait'
                end as category
            from ops
            where duration_ps > 0 and line is distinct from 'Async XLA Ops'
            union all
            select run_id, device_id, request, step, start_ps, start_ps + duration_ps, 'collective'
            from collectives
            where duration_ps > 0
        ),
        reached as (
            select *, max(end_ps) over (
                    partition by run_id, device_id, request, step, category
                    order by start_ps, end_ps
                    rows between unbounded preceding and 1 preceding
                ) as reached_ps
            from spans
            where category is not null
        ),
        recomputed as (
            select run_id, device_id, request, step, category,
                sum(greatest(end_ps - greatest(start_ps, coalesce(reached_ps, start_ps)), 0))
                    as busy_ps
            from reached group by run_id, device_id, request, step, category
        ),
        kept as (
            select run_id, device_id, request, step, category, sum(duration_ps) as busy_ps
            from busy_intervals
            group by run_id, device_id, request, step, category
        )
        select r.run_id, r.device_id, r.request, r.step, r.category, r.busy_ps, k.busy_ps as kept_ps
        from recomputed as r
        left join kept as k
            on k.run_id = r.run_id and k.device_id = r.device_id and k.category = r.category
            and k.request is not distinct from r.request and k.step is not distinct from r.step
        where coalesce(k.busy_ps, 0) <> r.busy_ps
        """,
    ),
    Audit(
        "device_steps_hold_intervals",
        "the split of a step is not that of its ops and busy intervals; where an older xlahouse ingested"
        " the run, ingest it again",
        """
        with spans as (
            select run_id, device_id, request, step, min(start_ps) as start_ps,
                max(start_ps + duration_ps) as end_ps,
                min(case when phase in ('prefill', 'decode', 'mixed') then start_ps end)
                    as pass_start_ps,
                max(case when phase in ('prefill', 'decode', 'mixed') then start_ps + duration_ps end)
                    as pass_end_ps
            from ops
            where category <> 'control'
            group by run_id, device_id, request, step
        ),
        weighed as (
            select *, max(case when step is null then 0 else 1 end) over (
                    partition by run_id, device_id
                ) as has_steps
            from spans
        ),
        followed as (
            select *, lead(start_ps) over (
                    partition by run_id, device_id order by start_ps, end_ps, request, step
                ) as next_ps
            from weighed
            where step is not null or has_steps = 0
        ),
        windows as (
            select run_id, device_id, request, step, start_ps, pass_start_ps, pass_end_ps,
                case when next_ps < end_ps then next_ps else end_ps end as end_ps
            from followed
        ),
        clipped as (
            select w.run_id, w.device_id, w.request, w.step,
                greatest(b.start_ps, w.start_ps) as start_ps,
                least(b.start_ps + b.duration_ps, w.end_ps) as end_ps,
                case
                    when b.category = 'compute' then 1
                    when b.category = 'collective' then 2
                    when b.category = 'copy_running' then 3
                    when b.category = 'sync_wait' then 4
                end as class
            from windows as w
            inner join busy_intervals as b
                on b.run_id = w.run_id and b.device_id = w.device_id
                and b.request is not distinct from w.request and b.step is not distinct from w.step
        ),
        reached as (
            select *,
                max(case when class <= 2 then end_ps end) over before as transfer_end_ps,
                max(case when class <= 3 then end_ps end) over before as copy_end_ps,
                max(end_ps) over before as wait_end_ps
            from clipped
            where start_ps < end_ps and class is not null
            window before as (
                partition by run_id, device_id, request, step order by start_ps
                rows between unbounded preceding and 1 preceding
            )
        ),
        unions as (
            select run_id, device_id, request, step,
                sum(case when class = 1 then end_ps - start_ps else 0 end) as compute_ps,
                sum(case when class = 2 then end_ps - start_ps else 0 end) as collective_ps,
                sum(case when class = 3 then end_ps - start_ps else 0 end) as copy_ps,
                sum(case
                    when class <= 2
                        then greatest(end_ps - greatest(start_ps, coalesce(transfer_end_ps, start_ps)), 0)
                    else 0
                end) as to_transfer_ps,
                sum(case
                    when class <= 3
                        then greatest(end_ps - greatest(start_ps, coalesce(copy_end_ps, start_ps)), 0)
                    else 0
                end) as to_copy_ps,
                sum(greatest(end_ps - greatest(start_ps, coalesce(wait_end_ps, start_ps)), 0))
                    as to_wait_ps
            from reached
            group by run_id, device_id, request, step
        )
        select w.run_id, w.device_id, w.request, w.step, w.end_ps - w.start_ps as window_ps,
            s.duration_ps as kept_ps, u.compute_ps, s.compute_ps as kept_compute_ps,
            u.to_wait_ps, s.sync_wait_ps as kept_wait_ps
        from windows as w
        left join unions as u
            on u.run_id = w.run_id and u.device_id = w.device_id
            and u.request is not distinct from w.request and u.step is not distinct from w.step
        left join device_steps as s
            on s.run_id = w.run_id and s.device_id = w.device_id
            and s.request is not distinct from w.request and s.step is not distinct from w.step
        where s.start_ps is distinct from w.start_ps
            or s.pass_start_ps is distinct from w.pass_start_ps
            or s.pass_end_ps is distinct from w.pass_end_ps
            or s.duration_ps is distinct from w.end_ps - w.start_ps
            or s.compute_ps is distinct from coalesce(u.compute_ps, 0)
            or s.collective_ps is distinct from coalesce(u.collective_ps, 0)
            or s.overlapped_ps
            is distinct from coalesce(u.compute_ps + u.collective_ps - u.to_transfer_ps, 0)
            or s.copy_ps is distinct from coalesce(u.copy_ps, 0)
            or s.exposed_copy_ps is distinct from coalesce(u.to_copy_ps - u.to_transfer_ps, 0)
            or s.sync_wait_ps is distinct from coalesce(u.to_wait_ps - u.to_copy_ps, 0)
        """,
    ),
    Audit(
        "stretches_fill_their_steps",
        "a step is not its busy stretches and the idle times before them, one after the other; where an"
        " older xlahouse ingested the run, ingest it again",
        """
        with followed as (
            select *, lag(start_ps + duration_ps) over (
                    partition by run_id, device_id, request, step order by start_ps
                ) as reached_ps
            from busy_stretches
        ),
        summed as (
            select run_id, device_id, request, step, min(start_ps) as start_ps,
                sum(duration_ps) as busy_ps, sum(idle_ps) as idle_ps,
                sum(case when reached_ps <> start_ps - idle_ps then 1 else 0 end) as jumps
            from followed
            group by run_id, device_id, request, step
        ),
        split as (
            select *,
                compute_ps + collective_ps - overlapped_ps + exposed_copy_ps + sync_wait_ps as busy_ps
            from device_steps
        )
        select s.run_id, s.device_id, s.request, s.step, s.duration_ps as window_ps, s.busy_ps,
            k.busy_ps as in_stretches_ps, k.idle_ps, k.jumps
        from split as s
        left join summed as k
            on k.run_id = s.run_id and k.device_id = s.device_id
            and k.request is not distinct from s.request and k.step is not distinct from s.step
        where k.start_ps is distinct from s.start_ps or k.busy_ps is distinct from s.busy_ps
            or k.idle_ps is distinct from s.duration_ps - s.busy_ps or k.jumps > 0
        """,
    ),
    Audit(
        "self_time_fits_its_line",
        "ops of a line have more time for themselves than the line lasts, or less than none",
        """
        select run_id, device_id, line, sum(self_ps) as self_ps,
            max(start_ps + duration_ps) - min(start_ps) as line_ps
        from ops
        group by run_id, device_id, line
        having sum(self_ps) > max(start_ps + duration_ps) - min(start_ps) or min(self_ps) < 0
        """,
    ),
    Audit(
        "roofline_holds_every_op",
        "compute ops are lost or doubled in roofline",
        """
        with seen as (
            select run_id, program_id, count(*) as executions, sum(duration_ps) as observed_ps
            from ops
            where category = 'compute' and line is distinct from 'Async XLA Ops'
                and line is distinct from 'Steps' and program_id is not null
                and coalesce(phase, 'none') not in ('warmup', 'compile')
                and (kernel is not null or not regexp_matches(coalesce(opcode, ''), '-(start|update|done)$'))
            group by run_id, program_id
        ),
        said as (
            select run_id, program_id, sum(executions) as executions, sum(observed_ps) as observed_ps
            from roofline_v1
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
        from comm_compute_v1 as c
        left join mfu_v1 as m on m.run_id = c.run_id and m.phase is not distinct from c.phase
        where m.window_ps is distinct from c.window_ps
        """,
    ),
    Audit(
        "setups_hold_every_run",
        "runs are lost or doubled in setup_summary",
        """
        with counted as (
            select count(*) as runs, 0 as in_setups from runs
            union all
            select 0, coalesce(sum(runs), 0) from setup_summary_v1
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
