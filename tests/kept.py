"""Views that a test asks many times, computed once."""

from __future__ import annotations

from xlahouse.sql import Warehouse
from xlahouse.sql.check.audits import AuditFinding, run_audits, shared_views
from xlahouse.sql.library import shipped

INTERNAL = [view.name for view in shipped().views.values() if view.internal]


def audited(warehouse: Warehouse) -> list[AuditFinding]:
    """What all audits find."""
    with warehouse.keeping(shared_views()) as kept:
        return run_audits(kept)
