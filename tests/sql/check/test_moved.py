"""Findings name the warehouse where they are shown: tables hold no place, and a warehouse may move."""

from __future__ import annotations

import shlex
from dataclasses import replace
from types import SimpleNamespace

import polars as pl
import pytest

from tests.command import run_command
from tests.ingest.traces import rows, tpu_trace, write
from tests.warehouse import write_warehouse
from xlahouse.capture.commands import COMMAND
from xlahouse.ingest.run import ingest_paths
from xlahouse.reports.charts.panel import fill
from xlahouse.reports.panels import quality
from xlahouse.reports.panels.communication import volume
from xlahouse.reports.run_page import _with_commands
from xlahouse.reports.site import read_runs
from xlahouse.reports.site_page import Frame
from xlahouse.reports.unchanged import run_key
from xlahouse.sql import Warehouse
from xlahouse.sql.answers.summary import summarize
from xlahouse.sql.check.check import check_warehouse
from xlahouse.sql.predict.writing import _issues
from xlahouse.sql.serve.context import about_runs

CARD = "workload:\n  data: {batch_size: minus one}\n"


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """(trace, a warehouse with it that moved, another one with it)."""
    folder = tmp_path_factory.mktemp("moved")
    trace = folder / "in" / "one" / "host0.xplane.pb"
    write(trace, tpu_trace())
    (trace.parent / "card.yaml").write_text(CARD)
    for name in ("old", "other"):
        ingest_paths([str(trace.parent.parent)], str(folder / name))
    (folder / "old").rename(folder / "new place")
    return trace, folder / "new place", folder / "other"


def finding(root):
    (found,) = rows(root, "issues").filter(pl.col("code") == "card_field")["message"]
    return found


def command_in(text):
    (found,) = [each for each in COMMAND.findall(text) if "--card" in each]
    return found


def test_equal_ingests_into_two_places_give_equal_findings(places):
    trace, moved, other = places
    assert rows(moved, "issues").equals(rows(other, "issues"))
    assert command_in(finding(moved)) == f"xlahouse ingest {trace} --run RUN --card CARD"


@pytest.mark.verify
def test_every_door_names_the_place_where_the_warehouse_is(places):
    trace, moved, _ = places
    want = f"xlahouse ingest {trace} --run one --card CARD -w '{moved}'"
    with Warehouse(moved) as warehouse:
        (checked,) = [line for line in check_warehouse(warehouse).lines if "card_field" in line]
        (summed,) = [one for one in summarize(warehouse, "one").data if one.code == "card_field"]
        because = about_runs(warehouse, None, ["ttft_s"])["cannot_be_known"]["because"]
        (asked,) = [each["why"] for each in because if "card_field" in each["why"]]
        _, _, [facts] = read_runs(warehouse, ["one"], headlines=False)
        found = warehouse.query(quality.ISSUES_SQL, {"run": facts.run_id}).pl()
        cells = fill(quality.ISSUES, found, facts).cells
    (page,) = [row[2].text for row in cells if row[1].text == "card_field"]
    assert [command_in(text) for text in (checked, summed.message, asked, page)] == [want] * 4


def test_what_proves_a_finding_works_when_pasted(places, monkeypatch, capsys):
    """No mesh is known here, of two devices, and all of the step is one all-reduce."""
    assert run_command(monkeypatch, "summary", "one", "-w", str(places[1])) == 0
    lines = capsys.readouterr().out.splitlines()
    (note,) = [line for line in lines if "axes of collectives" in line]
    assert f"`xlahouse set mesh one tp=2 -w '{places[1]}'`" in note
    for label in ("proof", "chart"):
        (line,) = [line for line in lines if f"   {label}: " in line]
        assert shlex.split(line)[-2:] == ["-w", str(places[1])]
    (proof,) = [line for line in lines if "   proof: " in line]
    assert run_command(monkeypatch, *shlex.split(proof)[2:]) == 0
    assert "all-reduce" in capsys.readouterr().out


def test_notes_of_panels_name_the_place(places):
    with Warehouse(places[1]) as warehouse:
        _, _, [facts] = read_runs(warehouse, ["one"], headlines=False)
        found = warehouse.query(volume.PANEL.sql, {"run": facts.run_id}).pl()
    section = _with_commands(fill(volume.PANEL, found, facts), facts)
    command = f"`xlahouse set mesh one tp=2 -w '{places[1]}'`"
    assert any(command in note for note in section.notes)


def test_a_page_of_a_warehouse_that_moved_is_drawn_again(places):
    with Warehouse(places[1]) as warehouse:
        _, _, [facts] = read_runs(warehouse, ["one"], headlines=False)
    moved = replace(facts, warehouse="elsewhere")
    keys = [run_key({}, each, "quality", Frame("", []), "") for each in (facts, facts, moved)]
    assert keys[0] == keys[1] != keys[2]


def test_the_command_works_when_pasted(places, tmp_path, monkeypatch):
    moved = places[1]
    with Warehouse(moved) as warehouse:
        (line,) = [line for line in check_warehouse(warehouse).lines if "card_field" in line]
    card = tmp_path / "right.yaml"
    card.write_text("workload:\n  data: {batch_size: 4}\n")
    words = [str(card) if word == "CARD" else word for word in shlex.split(command_in(line))]
    assert run_command(monkeypatch, *words[1:]) == 0
    with Warehouse(moved) as warehouse:
        assert warehouse.query("select name, batch_size from runs").rows == [("one", 4)]


def with_finding(tmp_path, name, message):
    """A warehouse of one run with one finding."""
    issue = {"run_id": "ab", "severity": "info", "code": "x", "source": "s", "count": 1}
    runs = [{"run_id": "ab", "name": name}]
    return write_warehouse(
        tmp_path / "w", {"runs": runs, "issues": [{**issue, "message": message}]}
    )


def test_a_renamed_run_is_named_as_it_is_called_now(tmp_path):
    message = "state the kind: `xlahouse set device-kind RUN KIND`"
    root = with_finding(tmp_path, "now", message)
    with Warehouse(root) as warehouse:
        lines = check_warehouse(warehouse).lines
    want = f"info     now: x: state the kind: `xlahouse set device-kind now KIND -w {root}` (s, 1)"
    assert want in lines


def test_findings_of_a_predicted_run_name_the_run_that_was_replayed(tmp_path):
    root = with_finding(tmp_path, "base", "`xlahouse ingest t --run RUN`")
    with Warehouse(root) as warehouse:
        schedule = SimpleNamespace(unmet=0)
        parent = SimpleNamespace(
            warehouse=warehouse, row={"run_id": "ab", "name": "base"}, schedule=schedule
        )
        messages = _issues(parent, "ici=2x")["message"].to_list()
    assert messages[0] == "`xlahouse ingest t --run base`"
    assert "base replayed with ici=2x" in messages[1]
