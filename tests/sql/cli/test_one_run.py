"""Queries about one run: --run narrows every view, and a run that is not there is named with what to do."""

from __future__ import annotations

import io

import pytest

from tests.command import run_command
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import WarehouseError
from xlahouse.capture.manifest import AXIS_NAMES
from xlahouse.capture.models.sharding import AXES
from xlahouse.sql import Warehouse
from xlahouse.sql.cli.session import Shell

GROUPS = [
    {"run_id": "ab12", "world": 0, "program_id": 7, "op": "all-reduce.1", "group_index": 0}
    | {"position": place, "logical_id": place, "device_id": place}
    for place in (0, 1)
]
TWO = {
    "runs": [{"run_id": "ab12", "name": "tp2"}, {"run_id": "cd34", "name": "dp2"}],
    "devices": [
        {"run_id": run, "device_id": device, "logical_id": device, "world": 0, "traced": True}
        for run in ("ab12", "cd34")
        for device in (0, 1)
    ],
    "ops": [
        {"run_id": run, "device_id": 0, "op": op, "category": "compute", "program_id": 7}
        | {"start_ps": 0, "duration_ps": 10, "self_ps": 10}
        for run, op in (("ab12", "a.1"), ("ab12", "b.1"), ("cd34", "c.1"))
    ],
    "collectives": [
        {"run_id": "ab12", "device_id": device, "program_id": 7, "op": "all-reduce.1"}
        | {"kind": "all-reduce", "group_index": 0, "group_size": 2, "instance": 0, "start_ps": 0}
        | {"duration_ps": 5, "payload_bytes": 8, "is_async": False}
        for device in (0, 1)
    ],
    "replica_groups": GROUPS,
}


@pytest.fixture
def root(tmp_path):
    return write_warehouse(tmp_path / "w", TWO)


def ask(monkeypatch, capsys, root, sql, *words):
    code = run_command(monkeypatch, "query", sql, "-w", root, "--format", "csv", *words)
    out, err = capsys.readouterr()
    return code, out.splitlines()[1:], err


@pytest.mark.parametrize(("run", "ops"), [("tp2", ["a.1", "b.1"]), ("cd3", ["c.1"])])
def test_run_narrows_tables_and_views(root, monkeypatch, capsys, run, ops):
    for relation in ("ops", "op_profile"):
        sql = f"select op from {relation} order by op"
        assert ask(monkeypatch, capsys, root, sql, "--run", run) == (0, ops, "")
    assert ask(monkeypatch, capsys, root, "select op from ops order by op")[1] == [
        "a.1",
        "b.1",
        "c.1",
    ]


def test_a_view_that_compares_runs_is_not_narrowed(root, monkeypatch, capsys):
    code, _, err = ask(monkeypatch, capsys, root, "from run_comparison", "--run", "tp2")
    assert code == 1
    assert (
        "run_comparison_v2 compares runs, and with --run there is one; name the run in WHERE" in err
    )


def test_a_run_that_is_not_there(root, monkeypatch, capsys):
    code, _, err = ask(monkeypatch, capsys, root, "from ops", "--run", "tp3")
    assert (code, "no run 'tp3'" in err, "did you mean tp2" in err) == (1, True, True)


@pytest.mark.parametrize(
    ("where", "hint"),
    [
        (
            "run_id = 'tp2'",
            "no run has the run_id tp2, which is a name: join runs using (run_id) where name = 'tp2', or "
            "--run tp2",
        ),
        ("run_id = 'ab13'", "no run has the run_id ab13; did you mean ab12?"),
        ("run_id = 'xyz'", "no run has the run_id xyz; `xlahouse runs` lists them"),
    ],
)
def test_a_query_for_no_run_says_why(root, monkeypatch, capsys, where, hint):
    code, rows, err = ask(monkeypatch, capsys, root, f"from ops where {where}")
    assert (code, rows, err) == (0, [], f"xlahouse: {hint}\n")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tp3", "no run has the name tp3; did you mean tp2?"),
        ("ab12", "no run has the name ab12, which is a run_id: where run_id = 'ab12'"),
    ],
)
def test_a_name_that_no_run_has(root, monkeypatch, capsys, name, hint):
    sql = "from ops join runs using (run_id) where runs.name = $name"
    code, rows, err = ask(monkeypatch, capsys, root, sql, "-p", f"name={name}")
    assert (code, rows, err) == (0, [], f"xlahouse: {hint}\n")


def test_no_rows_of_a_run_that_is_there_is_no_error(root, monkeypatch, capsys):
    assert ask(monkeypatch, capsys, root, "from host_events where run_id = 'ab12'") == (0, [], "")


def test_a_view_without_names_suggests_the_join(root, monkeypatch, capsys):
    code, _, err = ask(monkeypatch, capsys, root, "from traffic_volume where name = 'tp2'")
    assert code == 1
    assert "the name of a run is in runs: join runs using (run_id), or --run NAME" in err


def test_the_shell_of_one_run(root):
    out = io.StringIO()
    with Warehouse(root) as warehouse:
        shell = Shell(warehouse, out, run="dp2")
        for text in (".timer off", "select op from ops;", ".format line", "select op from ops;"):
            assert shell.answer(text)
        assert out.getvalue() == "op\n---\nc.1\n1 row\nrow 1\n  op  c.1\n1 row\n"
        with pytest.raises(WarehouseError, match="no run 'x'"):
            Shell(warehouse, out, run="x")


def test_the_shell_says_why_there_is_no_row(root):
    out = io.StringIO()
    with Warehouse(root) as warehouse:
        Shell(warehouse, out).answer("from ops where run_id = 'tp2';")
    assert "no run has the run_id tp2, which is a name" in out.getvalue()


def test_set_mesh_prints_what_changed(root, monkeypatch, capsys):
    def set_mesh(*words):
        assert run_command(monkeypatch, "set", "mesh", "tp2", *words, "-w", root) == 0
        return capsys.readouterr().err.splitlines()

    assert set_mesh("tp=2") == [
        "ab12: mesh tp=2, was not known",
        "collectives by axis: tp 2; were unclassified 2",
    ]
    assert set_mesh("model=2", "--force") == [
        "ab12: mesh model=2, was tp=2",
        "collectives by axis: model 2; were tp 2",
    ]
    assert set_mesh("own")[0] == "ab12: mesh not known, was model=2"


def test_axes_that_plans_know():
    assert set(AXIS_NAMES) == set(AXES)
