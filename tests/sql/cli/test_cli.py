"""The command line: data on stdout, all else on stderr, exit codes, help, and a quick start."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest
import typer

from tests.command import run_command as run
from tests.sql.cli.conftest import GIVEN
from tests.warehouse import write_warehouse
from xlahouse.sql import formats
from xlahouse.sql.cli import options
from xlahouse.sql.cli.app import app


def commands() -> list[tuple[str, ...]]:
    group = typer.main.get_command(app)
    found: list[tuple[str, ...]] = []
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        found += [(name, sub) for sub in inner] if inner else [(name,)]
    return found


def test_the_verbs() -> None:
    assert {" ".join(path) for path in commands()} == {
        "demo",
        "capture",
        "compile",
        "ingest",
        "runs",
        "set mesh",
        "set peaks",
        "set device-kind",
        "set limits",
        "query",
        "shell",
        "views",
        "tables",
        "check",
        "report",
        "summary",
        "serve",
        "mcp",
        "compact",
        "compare",
        "predict",
        "drop",
        "export ccl-bench",
        "export chakra",
        "export dataset",
        "export duckdb",
        "export perfetto",
        "tpu setup",
        "tpu create",
        "tpu run",
        "tpu fetch",
        "tpu delete",
    }


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_every_verb_has_help_with_examples(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *path, "--help") == 0
    shown = capsys.readouterr().out
    assert "Examples:" in shown
    assert f"xlahouse {' '.join(path)}" in shown.partition("Examples:")[2]
    for option in re.findall(r"^  (-.*)$", shown, re.MULTILINE):
        assert re.search(r"\S  +\S|^\S+$", option), f"{option}: say what it does"


@pytest.mark.parametrize(
    "path", [(), ("set",), ("export",), ("tpu",), *commands()], ids=lambda path: " ".join(path)
)
def test_help_is_whole_at_80_columns(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    assert run(monkeypatch, *path, "--help") == 0
    for line in capsys.readouterr().out.splitlines():
        assert len(line) <= 80
        repeats = line.startswith("Usage:") and line.endswith(("]...", "}..."))  # RUN...: several
        assert repeats or not line.endswith(("…", "..."))


def test_query(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = "select device_id from devices where device_id >= $least order by 1"
    assert run(monkeypatch, "query", sql, "-w", root, "-p", "least=1", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == [{"device_id": 1}]


def test_query_from_stdin_to_a_file(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    typed = io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfselect 1 as a\n"), "ascii")
    monkeypatch.setattr(sys, "stdin", typed)
    assert run(monkeypatch, "query", "-", "-w", root, "-o", tmp_path / "a.csv") == 0
    shown = capsys.readouterr()
    assert (tmp_path / "a.csv").read_text() == "a\n1\n"
    assert shown.out == ""
    assert "1 row\n" in shown.err


def test_the_warehouse_comes_from_the_environment(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XLAHOUSE_WAREHOUSE", str(root))
    assert run(monkeypatch, "runs", "--format", "csv") == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("ab12,base,")


def test_runs_are_listed_as_far_as_the_limit_that_it_advises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_warehouse(tmp_path, {"runs": [{"run_id": f"r{n}"} for n in range(4)]})
    (tmp_path / "tables/runs/r2.parquet").write_bytes(b"damaged")
    monkeypatch.setattr(formats, "TABLE_ROWS", 2)
    damage = (
        r".*/r2.parquet is damaged \(.*\): its run is left out; remove the file and ingest .*\n"
    )
    for limit, shown, advice in (
        ([], ["r0", "r1"], "the first 2 rows; --limit N shows more, --format csv all\n"),
        (["--limit", "1"], ["r0"], ""),
        (["--limit", "5000"], ["r0", "r1", "r3"], ""),
    ):
        assert run(monkeypatch, "runs", "-w", str(tmp_path), *limit) == 0
        told = capsys.readouterr()
        assert [line.split()[0] for line in told.out.splitlines()[2:]] == shown
        assert re.fullmatch(damage + advice, told.err)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["query", "select 1", "-w", "nowhere"], 1, "xlahouse: nowhere is not a warehouse"),
        (["query", "drop table ops"], 1, "a query may only read"),
        (["query", "from opz"], 1, "did you mean ops? (line 1, column 6)"),
        (["query", "select 1", "--format", "xml"], 2, "xml is not one of table, line, csv"),
        (["query", "select $a", "-p", "a"], 2, "write NAME=VALUE"),
        (["query", "select $a"], 1, "needs a value for $a"),
        (["query"], 2, "Missing argument"),
        (["set", "mesh", "base", "tp=3"], 1, "3 places, but the run names 2 devices"),
        (["set", "mesh", "nobody", "tp=2"], 1, "no run 'nobody'"),
        (["set", "mesh", "base", "tpp=2"], 1, "no plan has an axis tpp; did you mean tp"),
        (
            ["set", "mesh", "base", "x=2"],
            1,
            "plans have dp, ep, fsdp, pp, sp, tp; --force takes it",
        ),
        (
            ["set", "peaks", "base", "flops=1"],
            1,
            "of bf16_flops, hbm_bytes_per_s, ici_bytes_per_s, shared",
        ),
        (["set", "peaks", "base", "bf16_flops=1,bf16_flops=2"], 1, "each once"),
        (["set", "peaks", "base", "bf16_flops=many"], 1, "'many' is not a number"),
        (["set", "peaks", "base", "bf16_flops"], 1, "'' is not a number"),
        (["set", "peaks", "base", ""], 1, "NAME=NUMBER"),
        (["set", "peaks", "base", "bf16_flops=0"], 1, "> 0.0"),
        (["set", "peaks", "base", "bf16_flops=-1"], 1, "> 0.0"),
        (["set", "peaks", "base", "bf16_flops=nan"], 1, "bf16_flops"),
        (["set", "peaks", "base", "bf16_flops=inf"], 1, "<= 1e+24"),
        (["set", "peaks", "nobody", "bf16_flops=1"], 1, "no run 'nobody'"),
        (["set", "device-kind", "base", "TPU v9"], 1, "no peaks are known for 'TPU v9'"),
        (["set", "device-kind", "base", "A100"], 1, "or give them with set peaks"),
        (["set", "device-kind", "nobody", "v4"], 1, "no run 'nobody'"),
        (["views", "traffic_volum"], 1, "did you mean traffic_volume"),
        (["tables", "op"], 1, "did you mean ops"),
        (["capture", "plan.yaml", "--device", "gpu"], 2, "not one of auto, cpu, tpu"),
        (["capture", "nowhere.yaml", "--dry-run"], 1, "nowhere.yaml"),
        (["ingest", "nowhere.xplane.pb"], 1, "nowhere.xplane.pb"),
        (["ingest", "x", "--mesh", "tp"], 1, "NAME=SIZE"),
        (["nothing"], 2, "No such command"),
        (["query", "select ?"], 1, "a parameter is written $name"),
        (["query", "pivot runs on name using count(*)"], 1, "has to list its values"),
        (["query", "select 1", "-w", ""], 2, "it is empty"),
        (["runs", "-w", ""], 2, "it is empty"),
        (["check", "-w", ""], 2, "it is empty"),
        (["report", "-w", ""], 2, "it is empty"),
        (["ingest", "x", "-w", ""], 2, "it is empty"),
        (["set", "mesh", "base", "tp=2", "-w", ""], 2, "it is empty"),
        (["ingest", "x", "-w", "memory://x"], 2, "in memory ends with this command"),
        (["runs", "-w", "memory://x"], 2, "in memory ends with this command"),
        (["runs", "-w", "foo://x/y"], 1, "foo:// is not a known kind of URL"),
        (["views", "ops"], 1, "ops is a table; see `xlahouse tables ops`"),
        (["tables", "latency"], 1, "latency is a view; see `xlahouse views latency`"),
        (["tables", "latency_v3"], 1, "latency_v3 is a view; see `xlahouse views latency_v3`"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_wrong_is_one_line_on_stderr(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(root.parent)
    monkeypatch.setenv("XLAHOUSE_WAREHOUSE", str(root))
    assert run(monkeypatch, *arguments) == code
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""
    assert "Traceback" not in shown.err
    if code == 1:
        assert len(shown.err.splitlines()) == 1


def test_set_mesh(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "set", "mesh", "base", "tp=2", "-w", root) == 0
    assert capsys.readouterr().err.splitlines() == [
        "ab12: mesh tp=2, was not known",
        "collectives by axis: none; as before",
    ]
    assert run(monkeypatch, "query", "select axis from run_mesh", "-w", root) == 0
    assert capsys.readouterr().out.split() == ["axis", "----", "tp", "tp"]


def test_set_peaks_and_device_kind(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def peaks() -> list[str]:
        sql = "select distinct peak_flops_per_s, peak_hbm_bytes_per_s, peaks_source"
        sql += " from hardware_peaks where run_id = 'ab12'"
        assert run(monkeypatch, "query", sql, "--format", "csv", "-w", root) == 0
        return capsys.readouterr().out.splitlines()[1:]

    assert peaks() == [",,"]
    assert run(monkeypatch, "set", "device-kind", "base", "TPU v6e", "-w", root) == 0
    assert capsys.readouterr().err == "ab12: device kind TPU v6e\n"
    assert peaks() == ["918000000000000.0,1600000000000.0,setting"]
    assert run(monkeypatch, "set", "peaks", "base", "hbm_bytes_per_s=2e12", "-w", root) == 0
    assert capsys.readouterr().err == "ab12: peaks hbm_bytes_per_s=2e+12\n"
    assert peaks() == ["918000000000000.0,2000000000000.0,setting"]
    assert run(monkeypatch, "set", "device-kind", "base", "own", "-w", root) == 0
    assert capsys.readouterr().err == "ab12: device kind as traced\n"
    assert peaks() == [",2000000000000.0,setting"]
    assert run(monkeypatch, "set", "peaks", "base", "own", "-w", root) == 0
    assert capsys.readouterr().err == "ab12: peaks as known\n"
    assert peaks() == [",,"]


def test_set_mesh_back_to_the_runs_own(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "set", "mesh", "base", "tp=2", "-w", root) == 0
    assert run(monkeypatch, "set", "mesh", "base", "own", "-w", root) == 0
    assert capsys.readouterr().err.splitlines()[2] == "ab12: mesh not known, was tp=2"
    assert run(monkeypatch, "query", "select count(*) from run_mesh", "-w", root) == 0
    assert capsys.readouterr().out.split()[-1] == "0"


def test_views_and_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "views") == 0
    listed = capsys.readouterr().out
    assert re.search(
        r"^traffic_volume_v1 +one row per run, device, phase, axis", listed, re.MULTILINE
    )
    assert "_collective_wire" not in listed
    assert run(monkeypatch, "views", "traffic_volume") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("traffic_volume_v1 (also as traffic_volume): one row per run, device")
    assert "  wire_bytes           sum of the bytes that the device sends\n" in shown
    assert shown.endswith("group by run_id, device_id, phase, axis, kind\n")
    assert run(monkeypatch, "tables") == 0
    assert "one row per device event" in capsys.readouterr().out
    assert run(monkeypatch, "tables", "run_settings") == 0
    assert re.search(r"device_kind str +kind of device", capsys.readouterr().out)


def test_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    issue = {"run_id": "ab12", "code": "c", "message": "m", "source": "s", "count": 1}
    warned = write_warehouse(
        tmp_path / "warned", {**GIVEN, "issues": [{**issue, "severity": "warning"}]}
    )
    assert run(monkeypatch, "check", "-w", warned) == 0
    assert capsys.readouterr().out == "warning  base: c: m (s, 1)\n"
    assert run(monkeypatch, "check", "-w", warned, "--strict") == 1
    capsys.readouterr()
    failed = write_warehouse(
        tmp_path / "failed",
        {
            **GIVEN,
            "issues": [{**issue, "severity": "error"}],
            "coverage": [
                {"run_id": "ab12", "events_read": 2, "rows_written": 1, "events_rejected": 0}
            ],
        },
    )
    assert run(monkeypatch, "check", "-w", failed) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("error    audit coverage_adds_up: ")
    assert lines[1] == "error    base: c: m (s, 1)"


def test_runs_and_views_are_completed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLAHOUSE_WAREHOUSE", str(root))
    context = typer.Context(typer.main.get_command(app))
    assert options.complete_run(context, "b") == ["base"]
    assert options.complete_run(context, "") == ["base", "ab12"]
    assert options.complete_view("traffic_v") == ["traffic_volume", "traffic_volume_v1"]
    monkeypatch.setenv("XLAHOUSE_WAREHOUSE", "nowhere")
    assert options.complete_run(context, "") == []


def test_the_codes_of_findings_are_listed(monkeypatch, capsys):
    assert run(monkeypatch, "check", "--codes") == 0
    assert "bad_time: events whose start or duration is negative" in capsys.readouterr().out
