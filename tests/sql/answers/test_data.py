"""What is wrong in a run's data: findings of its ingest and clocks that contradict each other."""

from __future__ import annotations

from tests.warehouse import write_warehouse
from xlahouse.reports.site import render_site
from xlahouse.sql import Warehouse
from xlahouse.sql.answers.data import DISAGREE, data_findings

LAUNCH = {"run_id": "r", "device_id": 0, "module": "m", "phase": "decode", "duration_ps": 5}
# Four launches, three of them linked to their enqueue; the second starts before it.
LAUNCHES = [
    LAUNCH
    | {"launch": number, "launch_instance": number, "start_ps": 10 * number, "enqueue_ps": sent}
    for number, sent in enumerate((0, 14, 20, None), start=0)
]
TABLES = {
    "runs": [{"run_id": "r", "name": "odd", "source": "xplane", "device_count": 1}],
    "devices": [{"run_id": "r", "device_id": 0, "traced": True, "core": "tensorcore"}],
    "launches": LAUNCHES,
    "issues": [
        {"run_id": "r", "severity": "warning", "code": "no_hlo", "message": "m", "count": 4}
    ],
}
SAID = (
    "1 of 3 linked launches start before the host enqueues them: the clocks of host and device disagree, "
    "and times from a host's marker are in doubt"
)


def test_a_launch_before_its_enqueue_is_a_warning_beside_those_of_ingest(tmp_path):
    with Warehouse(write_warehouse(tmp_path / "w", TABLES)) as warehouse:
        issue, early = data_findings(warehouse, "r", "odd")
        made = render_site(warehouse, tmp_path / "site", runs=["odd"], pages=["overview"])
    assert (issue.severity, issue.code, issue.message, issue.count) == ("warning", "no_hlo", "m", 4)
    assert (early.severity, early.code, early.message, early.count) == (
        "warning",
        DISAGREE,
        SAID,
        1,
    )
    assert SAID in " ".join(made.pages[0].read_text("utf-8").split()).replace("&#39;", "'")


def test_clocks_that_agree_are_no_finding(tmp_path):
    tables = TABLES | {"launches": [LAUNCHES[0], LAUNCHES[2]], "issues": []}
    with Warehouse(write_warehouse(tmp_path / "w", tables)) as warehouse:
        assert data_findings(warehouse, "r", "odd") == ()
