"""The summary of runs in a warehouse, by Python and by the verb."""

from __future__ import annotations

import json

import pytest

from tests.command import run_command
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import WarehouseError
from xlahouse.sql import Warehouse
from xlahouse.sql.answers.evidence import evidence
from xlahouse.sql.answers.losses import LOSSES
from xlahouse.sql.answers.split import Part
from xlahouse.sql.answers.summary import summarize
from xlahouse.sql.answers.wording import summary_lines

RUN = {"run_id": "ab12", "name": "base\x1b[2J", "status": "complete", "output_tokens": 1}
DEVICE = {"run_id": "ab12", "device_id": 0, "traced": True, "core": "tensorcore"}


# Step 1 computes for 100 and copies for 300; step 2 starts 100 later and computes for 100.
SPANS = ((1, "compute", 0, 100), (1, "copy", 100, 300), (2, "compute", 500, 100))
OPS = [
    {"run_id": "ab12", "device_id": 0, "request": 0, "step": step, "category": category}
    | {"start_ps": start, "duration_ps": length}
    for step, category, start, length in SPANS
]
BUSY = [op | {"category": op["category"].replace("copy", "copy_running")} for op in OPS]


@pytest.fixture
def root(tmp_path):
    bare = {"run_id": "cd34", "name": "bare", "status": "no_device_events"}
    issue = {"run_id": "ab12", "severity": "warning", "code": "x", "message": "y", "count": 3}
    tables = {"runs": [RUN, bare], "devices": [DEVICE], "issues": [issue]}
    ops = [op | {"phase": "decode", "op": f"{op['category']}.1", "program_id": 7} for op in OPS]
    tables |= {"ops": ops, "busy_intervals": BUSY}
    return write_warehouse(tmp_path / "w", tables)


def test_a_run_from_its_views(root):
    with Warehouse(root) as warehouse:
        found = summarize(warehouse, "ab12")
    parts = {part.name: part.time_ps for part in found.split.parts}
    assert (parts["compute"], parts["exposed_copy"], parts["between_steps"]) == (200, 300, 100)
    assert sum(parts.values()) == found.split.time_ps == 600
    assert found.verdict == (
        "50 % of the mean decode step's 0.3 ns is exposed copies: most copy time is in copy, 0.5 a step."
    )
    assert (found.prefill, bool(found.why_no_prefill)) == (None, True)
    assert found.ttft.value_s is None
    assert found.ttft.why
    assert found.tpot.why
    assert [(one.code, one.count) for one in found.data] == [("x", 3)]


def test_each_part_of_a_split_can_be_asked_about(root):
    """A question must name no parameter that its SQL lacks: waits in barriers ended in an error."""
    with Warehouse(root) as warehouse:
        split = summarize(warehouse, "ab12").split
        said = {name: evidence(warehouse, "ab12", split, part_of(name)) for name in LOSSES}
    assert said["exposed_copy"] == "most copy time is in copy, 0.5 a step"
    assert said["sync_wait"] == ""  # no collective shows who comes last


def part_of(name):
    return Part(name, None, 100, 50.0, 0.2)


def test_a_run_without_devices_has_reasons_and_no_numbers(root):
    with Warehouse(root) as warehouse:
        found = summarize(warehouse, "bare")
        with pytest.raises(WarehouseError, match="no run 'nosuch'"):
            summarize(warehouse, "nosuch")
    assert (found.split, found.findings) == (None, ())
    assert found.verdict == "No verdict: no device events in the trace."
    assert "no device events in the trace" in "\n".join(summary_lines(found, "./warehouse"))


def test_the_verb(root, monkeypatch, capsys):
    assert run_command(monkeypatch, "summary", "ab12", "-w", root) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("base\\x1b[2J: 50 % of ")
    assert any(line.startswith("  exposed copy ") and "50.00%" in line for line in lines)
    assert run_command(monkeypatch, "summary", "ab12", "-w", root, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(part["time_ps"] for part in found["split"]["parts"]) == 600
    assert found["ttft"]["value_s"] is None


def test_a_compiled_run_ran_nothing(tmp_path):
    run = RUN | {"source": "compiled"}
    root = write_warehouse(tmp_path / "w", {"runs": [run], "devices": [DEVICE | {"traced": False}]})
    with Warehouse(root) as warehouse:
        found = summarize(warehouse, "ab12")
    assert found.verdict == "No verdict: its programs were compiled and did not run."
    assert found.ttft.why == found.tpot.why == "its programs were compiled and did not run"
