"""A real trace through the verbs, as a user types them; the demo's queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import run_command as run
from tests.samples import SAMPLES
from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse
from xlahouse.sql.cli.demo_steps import DEMO_QUERIES

PSUM = SAMPLES / "tpu" / "v6e_4dev_jax_psum_offload.xplane.pb"
MANGLED = SAMPLES / "tpu" / "v6e_4dev_utf8_mangled.xplane.pb"


def answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], root: Path, sql: str
) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run(monkeypatch, "query", sql, "-w", root, "--format", "json") == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


@pytest.mark.skipif(not PSUM.exists(), reason=f"no sample trace at {PSUM}")
def test_the_v6e_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "w"
    assert run(monkeypatch, "ingest", PSUM, "-w", root, "--run", "psum") == 0
    (run_id,) = capsys.readouterr().out.split()
    found = answer(
        monkeypatch,
        capsys,
        root,
        """select device_id, op, count(*) as n, min(payload_bytes) as least,
            max(payload_bytes) as most, max(group_size) as members
        from collectives group by all order by all""",
    )
    # METRICS: 12 instances, three a device; f32[5,1024,1024,256] is 5,368,709,120 bytes.
    assert [row["device_id"] for row in found] == [4, 5, 6, 7]
    assert {(row["n"], row["least"], row["most"], row["members"]) for row in found} == {
        (3, 5368709120, 5368709120, 2)
    }
    bandwidth = answer(
        monkeypatch,
        capsys,
        root,
        """select participants_seen, round(algbw_bytes_per_s / 1e9, 1) as algbw,
            round(busbw_bytes_per_s / 1e9, 1) as busbw
        from collective_bandwidth""",
    )
    assert bandwidth == [{"participants_seen": 1, "algbw": 44.1, "busbw": 44.1}] * 12

    # Groups are {0,4} {1,5} {2,6} {3,7}: on a mesh of [2, 4] they span its first axis.
    assert run(monkeypatch, "set", "mesh", "psum", "x=2,y=4", "--force", "-w", root) == 0
    volume = answer(
        monkeypatch,
        capsys,
        root,
        "select axis, sum(wire_bytes) as wire_bytes from traffic_volume group by axis",
    )
    assert volume == [{"axis": "x", "wire_bytes": 12 * 5368709120.0}]
    matrix = answer(
        monkeypatch,
        capsys,
        root,
        """select source_device_id as a, target_device_id as b, bytes
        from traffic_matrix where algorithm = 'ring' order by all""",
    )
    assert [(row["a"], row["b"]) for row in matrix] == [(4, 0), (5, 1), (6, 2), (7, 3)]
    assert {row["bytes"] for row in matrix} == {3 * 5368709120.0}
    # 8 chips are 2 x 4: 4 = (0,2) to 0 = (0,0) and 6 = (0,3) to 2 = (0,1) share (0,2)->(0,1), and
    # 5 to 1 and 7 to 3 the link beside it: 88.2 GB/s, 98 % of 9e10.
    links = answer(
        monkeypatch,
        capsys,
        root,
        """select source_chip as a, target_chip as b, bytes, round(link_bytes_per_s / 1e9, 1) as rate,
            round(utilization_ratio, 2) as utilization
        from link_traffic where algorithm = 'ring' and is_busiest order by all""",
    )
    assert links == [
        {"a": 4, "b": 2, "bytes": 6 * 5368709120.0, "rate": 88.2, "utilization": 0.98},
        {"a": 5, "b": 3, "bytes": 6 * 5368709120.0, "rate": 88.2, "utilization": 0.98},
    ]
    capsys.readouterr()
    assert run(monkeypatch, "check", "-w", root) == 0
    assert "audit" not in capsys.readouterr().out
    assert run(monkeypatch, "ingest", PSUM, "-w", root) == 0
    assert capsys.readouterr().out.split() == [run_id]


@pytest.mark.skipif(not MANGLED.exists(), reason=f"no sample trace at {MANGLED}")
def test_the_mangled_trace_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "ingest", MANGLED, "-w", tmp_path / "w") == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert MANGLED.name in shown.err
    assert not (tmp_path / "w" / "tables").exists()


@pytest.mark.parametrize(("title", "sql"), DEMO_QUERIES, ids=[title for title, _ in DEMO_QUERIES])
def test_the_demo_asks_what_can_be_answered(title: str, sql: str, tmp_path: Path) -> None:
    assert title.endswith("?")
    with Warehouse(write_warehouse(tmp_path, {})) as warehouse:
        warehouse.query(sql).arrow()
