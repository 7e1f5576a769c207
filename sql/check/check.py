"""Everything wrong with a warehouse: audits, findings of views, and issues that ingest found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlahouse.capture.commands import STATE_MESH, shown, with_mesh
from xlahouse.sql.check.audits import run_audits, shared_views
from xlahouse.sql.check.findings import view_findings
from xlahouse.sql.damage import changed_files

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse


@dataclass(frozen=True)
class CheckReport:
    """Findings as lines, worst first, and how many of them are errors and warnings."""

    lines: tuple[str, ...]  # one a finding
    errors: int  # their number
    warnings: int  # their number


def check_warehouse(warehouse: Warehouse) -> CheckReport:
    """Run every audit; gather issues, damaged and changed runs, own views' faults, bad meshes and findings.

    Raises:
        WarehouseError: a file of the warehouse vanished or is damaged.
    """
    with warehouse.keeping(shared_views()) as kept:
        return _check(kept)


def _check(warehouse: Warehouse) -> CheckReport:
    from xlahouse.sql.check.lint import lint

    audits = [
        f"error    audit {finding.audit.name}: {finding.audit.meaning}; "
        f"{finding.rows} rows, the first: {finding.example}"
        for finding in run_audits(warehouse)
    ]
    issues = warehouse.query(
        """
        select
            -- NULL only where a file of the table was changed
            coalesce(i.severity, 'warning') as severity, coalesce(r.name, i.run_id) as name,
            coalesce(i.source, 'unknown file') as source, coalesce(i.code, 'no code') as code,
            coalesce(i.message, 'no text') as message, coalesce(i.count, 1) as count
        from issues as i left join runs as r on r.run_id = i.run_id
        order by
            case i.severity when 'error' then 0 when 'info' then 2 else 1 end,
            name, i.code, i.source
        """
    ).dicts()
    meshes = warehouse.query(
        """
        select coalesce(name, run_id) as name, mesh_source, mesh_problem,
            coalesce(expected_device_count, device_count) as devices
        from run_summary_v2
        where mesh_problem is not null and (mesh_source is not null or collectives > 0)
        order by name
        """
    ).dicts()
    found = view_findings(warehouse)
    own = [fault for view in warehouse.library.views.values() if view.own for fault in lint(view)]
    lines = [
        *(f"warning  {fault}" for fault in own),
        *(
            f"{row['severity']:8} {row['name']}: {row['code']}: "
            f"{shown(row['message'], row['name'], warehouse.root)} "
            f"({row['source']}, {row['count']:,})"
            for row in issues
        ),
        *(
            _about_mesh(row["name"], row["mesh_problem"], row["devices"], warehouse.root)
            for row in meshes
        ),
        *(f"warning  {line}" for line in found),
    ]
    counted = [row["severity"] for row in issues]
    damaged = [f"error    {line}" for line in (*warehouse.damaged, *changed_files(warehouse))]
    return CheckReport(
        (*damaged, *audits, *lines),
        len(damaged) + len(audits) + counted.count("error"),
        len(own) + len(meshes) + len(found) + counted.count("warning"),
    )


def _about_mesh(name: str, problem: str, devices: int | None, root: str) -> str:
    state = shown(with_mesh(STATE_MESH, devices), name, root)
    return f"warning  {name}: mesh: {problem}; {state}"
