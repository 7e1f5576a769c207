"""A compiled run through the verbs: ingested, checked, summarized, compared."""

from __future__ import annotations

import gzip

import pytest

from tests.command import run_command
from tests.ingest.compiled.test_buffers import COMPILED
from tests.ingest.compiled_build import decode, prefill, write_compiled
from xlahouse.ingest.run import ingest_paths


@pytest.fixture(scope="module")
def wh(tmp_path_factory):
    """Two compiled runs: the second makes its decode's collective in its prefill too."""
    root = tmp_path_factory.mktemp("compiled")
    write_compiled(root / "traces" / "a", stamp="1")
    programs = {"prefill": decode(), "decode": decode()}
    write_compiled(root / "traces" / "b", programs, stamp="2", name="other")
    ingest_paths([str(root / "traces")], str(root / "wh"))
    return root / "wh"


def test_it_passes_every_audit(wh, monkeypatch, capsys):
    """No audit expects times of it."""
    assert run_command(monkeypatch, "check", "-w", wh, "--strict") == 0
    assert "0 errors, 0 warnings" in capsys.readouterr().err


def test_two_are_compared_by_a_step(wh, monkeypatch, capsys):
    """The first prefill: on each device four rounds of 256 bytes and, from device 0 to 1 alone, 256 more: 5
    collectives, 1024 + 256/4 = 1088 bytes. All else is one transfer of 256. Over pairs a round sends 256,
    in all 1024 + 64; over four 2 x 3/4 x 256 = 384. The HLO has no buffers: nothing is said of memory."""
    assert run_command(monkeypatch, "compare", "-w", wh, "made.compiled", "other.compiled") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["phase", "metric", "base", "other", "change_percent"]
    assert lines[2:] == [
        ["decode", "collectives", "1", "1", "0"],
        ["decode", "payload_bytes", "256", "256", "0"],
        ["decode", "wire_bytes", "384", "384", "0"],
        ["prefill", "collectives", "5", "1", "-80"],
        ["prefill", "payload_bytes", "1088", "256", "-76.4706"],
        ["prefill", "wire_bytes", "1088", "384", "-64.7059"],
    ]


def test_a_gate_on_times_is_inconclusive(wh, monkeypatch, capsys):
    verb = ("compare", "-w", wh, "made.compiled", "other.compiled", "--fail-over", "3")
    assert run_command(monkeypatch, *verb) == 3
    assert "the runs share none of ttft_s" in capsys.readouterr().err


def test_the_summary_says_that_nothing_ran(wh, monkeypatch, capsys):
    assert run_command(monkeypatch, "summary", "-w", wh, "made.compiled") == 0
    text = capsys.readouterr().out
    assert "No verdict: its programs were compiled and did not run." in text
    assert "compiled for 4 devices, status complete" in text
    assert "no device events" not in text


def test_what_it_needs_and_sends_is_its_verdict(tmp_path, monkeypatch, capsys):
    """The real scan, by its buffers: test_buffers holds them against XLA's own live ranges."""
    real = gzip.decompress((COMPILED / "scan_tp4_v6e.libtpu0.0.42.1.hlo.pb.gz").read_bytes())
    write_compiled(tmp_path / "t", {"prefill": prefill(), "decode": real})
    ingest_paths([str(tmp_path / "t")], str(tmp_path / "wh"))
    assert run_command(monkeypatch, "summary", "-w", tmp_path / "wh", "made.compiled") == 0
    text = capsys.readouterr().out
    assert "Compiled, nothing ran. The decode needs" in text
    assert "of a device's 34.4 GB of HBM: it fits" in text


def test_runs_lists_its_devices_and_source(wh, monkeypatch, capsys):
    assert run_command(monkeypatch, "runs", "-w", wh, "--format", "csv") == 0
    header, first, _ = capsys.readouterr().out.splitlines()
    listed = dict(zip(header.split(","), first.split(","), strict=True))
    assert (listed["device_count"], listed["source"]) == ("4", "compiled")
