"""Findings of views about whole runs: clocks, recompiles, meshes, links, repeated files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlahouse.capture.commands import shown

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse


@dataclass(frozen=True)
class Question:
    """A query for `run_id` and `found`, a text, each row of which is a warning."""

    code: str  # name of the warning
    advice: str  # the cost of the finding, and the remedy
    sql: str  # the query


QUESTIONS = (
    Question(
        "starts_before_enqueue",
        "clocks of host and device disagree: their queue and dispatch times are NULL;"
        " `xlahouse query 'select * from scheduling'` shows where",
        """
        select run_id, concat(sum(early_launches), ' of ', sum(linked_launches),
            ' linked launches start before the host enqueues them') as found
        from scheduling_v2
        group by run_id
        having sum(early_launches) > 0
        """,
    ),
    Question(
        "recompiles",
        "the steps that waited include compile time;"
        " `xlahouse query 'select * from compile where is_recompile'` names them",
        """
        select run_id, concat(count(*), ' compiles after warm-up') as found
        from compile_v1
        where is_recompile
        group by run_id
        """,
    ),
    Question(
        "host_late",
        "devices wait for their host;"
        " `xlahouse query 'select * from host_gap'` shows how the host spent these times",
        """
        with late as (
            select run_id, phase, activity, sum(self_ps) as self_ps
            from host_gap_v1
            where phase is distinct from 'warmup' and phase is distinct from 'compile'
            group by run_id, phase, activity
        ),
        shared as (
            select *, sum(self_ps) over (partition by run_id, phase) as gap_ps from late
        ),
        told as (
            select run_id, phase, any_value(gap_ps) as gap_ps, string_agg(concat(activity, ' ',
                round(100 * self_ps / gap_ps), ' %'), ', ' order by self_ps desc) as did
            from shared
            where self_ps >= gap_ps / 100
            group by run_id, phase
        ),
        counted as (
            select g.run_id, l.phase, count(distinct (g.device_id, g.start_ps)) as gaps
            from host_gaps as g
            inner join launches as l using (run_id, device_id, launch)
            group by g.run_id, l.phase
        ),
        lasting as (
            select run_id, phase, sum(period_ps) as period_ps
            from device_time_v1
            where core is distinct from 'sparsecore'
            group by run_id, phase
            having count(*) = count(period_ps)
        )
        select t.run_id, concat(round(100 * t.gap_ps / p.period_ps, 1), ' % of the time of phase ',
            coalesce(t.phase, 'outside markers'), ' passes between launches, ',
            round(t.gap_ps / c.gaps / 1e6, 1), ' us before each: ', t.did) as found
        from told as t
        inner join counted as c
            on c.run_id = t.run_id and c.phase is not distinct from t.phase
        inner join lasting as p
            on p.run_id = t.run_id and p.phase is not distinct from t.phase
        where t.gap_ps > p.period_ps / 2
        """,
    ),
    Question(
        "waits_for_host",
        "TPOT is the host's, not the devices'; raise `steps_ahead` in the plan;"
        " `xlahouse query 'select * from launch_overhead'` shows each launch",
        """
        with sent as (
            select l.run_id, l.request, l.step,
                max(case when l.enqueue_ps > l.start_ps - l.launch_gap_ps then 1 else 0 end) as waited
            from launch_overhead_v1 as l
            inner join devices as d on d.run_id = l.run_id and d.device_id = l.device_id
            where l.phase = 'decode' and l.request is not null and l.queue_ps is not null
                and l.launch_gap_ps is not null and d.core = 'tensorcore'
                and d.inferred is distinct from true and d.kind like 'TPU%'
            group by l.run_id, l.request, l.step
        )
        select run_id, concat('the devices waited for the host before ', round(100 * avg(waited), 1),
            ' % of ', count(*), ' decode steps') as found
        from sent
        group by run_id
        having avg(waited) > 0.05
        """,
    ),
    Question(
        "host_clock_differs",
        "one of the two does not say how long a user waits: clocks of host and device disagree, or the host"
        " is slow to take tokens; `xlahouse query 'select * from latency'` has both",
        """
        with means as (
            select run_id, avg(ttft_s) as ttft_s, avg(tpot_s) as tpot_s,
                any_value(measured_ttft_s) as measured_ttft_s,
                any_value(measured_tpot_s) as measured_tpot_s
            from latency_v3
            group by run_id
        ),
        told as (
            select run_id, 'TTFT' as name, ttft_s as s, measured_ttft_s as host_s from means
            union all
            select run_id, 'TPOT', tpot_s, measured_tpot_s from means
        )
        select t.run_id, concat(t.name, ' is ', round(1e3 * t.s, 3), ' ms by the ends of ops, and ',
            round(1e3 * t.host_s, 3), ' ms by the clock of the host') as found
        from told as t
        inner join run_summary_v2 as r on r.run_id = t.run_id
        -- The host's are means over all requests. Virtual devices and their host share cores.
        where abs(t.s - t.host_s) > 0.05 * t.host_s and r.excluded_requests = 0 and not r.inferred
        """,
    ),
    Question(
        "clocks_spread",
        "skews across the two clocks are not known;"
        " `xlahouse query 'select * from clock_offset'` has each clock",
        """
        select run_id, concat('the clock ', clock, ' is known to within ', spread_ps,
            ' ps of ', reference, ', but skews are only ', median_skew_ps) as found
        from clock_offset_v2
        where state = 'aligned' and not is_usable
        """,
    ),
    Question(
        "unclassified_traffic",
        "a group has a member outside the mesh, or is not known:"
        " `xlahouse query 'select * from collective_axis'` names it;"
        " `xlahouse set mesh RUN MESH` states another mesh",
        """
        select run_id, concat(round(100 * unclassified_ratio, 1),
            ' % of the known payload has no known axis') as found
        from run_summary_v2
        where mesh_problem is null and unclassified_ratio > 0
        """,
    ),
    Question(
        "links_unknown",
        "link_traffic has no links; where the kind is at fault, state it:"
        " `xlahouse set device-kind RUN KIND`",
        """
        with placed as (
            select p.run_id, min(p.topology_problem) as topology_problem
            from _chip_place_v1 as p
            inner join devices as d on d.run_id = p.run_id and d.device_id = p.device_id
            where d.core = 'tensorcore' and d.inferred is distinct from true
            group by p.run_id
        ),
        moved as (
            select run_id from collectives where group_size > 1 group by run_id
        )
        select p.run_id, p.topology_problem as found
        from placed as p
        inner join moved as m on m.run_id = p.run_id
        where p.topology_problem is not null
        """,
    ),
    Question(
        "impossible_rate",
        "the kind of chip, a peak or the places of the chips are wrong, or the kind of the collective"
        " is: these transfers have no utilization. Check the kind, `xlahouse set device-kind RUN KIND`, and"
        " the link's peak, `xlahouse set peaks RUN ici_bytes_per_s=PEAK`",
        """
        select run_id, concat(count(*) filter (where is_impossible), ' of ', count(is_impossible),
            ' transfers (', kind, ' over ', axis, ') are more than 2 % shorter than the links of their'
            ' chips allow together, by a factor of up to ', round(max(ici_ps / transfer_ps)
            filter (where is_impossible and transfer_ps > 0), 2)) as found
        from collective_bandwidth_v3
        group by run_id, kind, axis
        having count(*) filter (where is_impossible) > 0
        """,
    ),
    Question(
        "files_in_two_runs",
        "sums over runs count these files twice; if the other run replaces it: `xlahouse drop RUN`",
        """
        with file as (
            select run_id, unnest(source_files) as source
            from runs
            -- plans that differ may have one program
            where source is distinct from 'compiled'
        ),
        read as (
            select run_id, source.sha256 as sha256, count(*) over (partition by run_id) as files
            from file
            where source.bytes > 0
        )
        select r.run_id, concat(count(*), ' of its ', any_value(r.files), ' files are in run ',
            o.run_id, ' too') as found
        from read as r
        inner join read as o on o.sha256 = r.sha256
        where r.files < o.files or (r.files = o.files and r.run_id < o.run_id)
        group by r.run_id, o.run_id
        """,
    ),
)


def view_findings(warehouse: Warehouse) -> list[str]:
    """A line `<run>: <code>: <finding>; <advice>` for each finding, by question and run.

    Raises:
        WarehouseError: a file of the warehouse vanished or is damaged.
    """
    lines = []
    for question in QUESTIONS:
        rows = warehouse.query(
            f"select coalesce(r.name, f.run_id) as name, f.found from ({question.sql}) as f"
            " left join runs as r on r.run_id = f.run_id order by name, f.found"
        ).dicts()
        lines += [
            f"{row['name']}: {question.code}: {row['found']}; "
            + shown(question.advice, row["name"], warehouse.root)
            for row in rows
        ]
    return lines
