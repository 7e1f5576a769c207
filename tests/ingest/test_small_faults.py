"""Small files with one fault each: it costs itself, and the rest is kept."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from tests.ingest.build import PlaneBuilder, space
from tests.ingest.traces import tpu_trace
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.tables.payloads import summable
from xlahouse.sql.warehouse import Warehouse

CASES = Path(__file__).parents[1] / "cases" / "faults"


def ingested(case, tmp_path):
    ingest_paths([str(CASES / case)], str(tmp_path), name="x")
    return Warehouse(str(tmp_path))


def test_a_plane_with_an_impossible_number_costs_itself(tmp_path):
    with ingested("device_number_huge.xplane.pb", tmp_path) as warehouse:
        traced = warehouse.query("select device_id from devices where traced order by 1").rows
        assert traced == [(1,), (2,), (3,)]
        found = warehouse.query("select message from issues where code = 'unknown_plane'").rows
        (message,) = [text for (text,) in found]
        assert "/device:TPU:99999999999999999999" in message


def test_groups_of_millions_cost_themselves(tmp_path):
    with ingested("iota_200_x_2_20.xplane.pb", tmp_path) as warehouse:
        (found,) = warehouse.query(
            "select message from issues where code = 'limit_exceeded' and count = 200"
        ).rows
        assert "--limits group_members=NUMBER" in found[0]
        left = warehouse.query("select count(*), count(group_size) from collectives").rows
        kept = warehouse.query("select distinct op from replica_groups order by 1").rows
    assert left == [(48, 48)]
    ran = ["all-gather-done.1", "all-gather-start.1", "all-reduce.1", "collective-permute.1"]
    assert kept == [(op,) for op in ran]


def test_names_are_kept_as_they_are(tmp_path):
    with ingested("evil_names.trace.json.gz", tmp_path) as warehouse:
        names = {op for (op,) in warehouse.query("select op from ops").rows}
        assert {"=cmd()", "\x1b]0;pwned\x07\x1b[2J", "a\x00b", "\u202eevil", "a\nb"} <= names


def test_a_trace_of_nothing_but_names_is_a_run_without_device_events(tmp_path):
    with ingested("metadata_only.trace.json.gz", tmp_path) as warehouse:
        assert warehouse.query("select name, status from runs").rows == [("x", "no_device_events")]


def test_a_payload_beyond_2_to_the_53_keeps_its_last_byte(tmp_path):
    with ingested("huge_payload.trace.json.gz", tmp_path) as warehouse:
        payload = warehouse.query("select kind, payload_bytes, group_size from collectives").rows
        members = warehouse.query("select logical_id from replica_groups order by position").rows
        volume = warehouse.query("select payload_bytes from traffic_volume").rows
    assert payload == [("all-reduce", 9007199254740993, 2)]
    assert members == [(0,), (1,)]
    assert volume == [(9007199254740993,)]


def test_a_text_that_is_cut_in_its_groups_keeps_the_collective(tmp_path):
    trace = json.loads(gzip.decompress((CASES / "huge_payload.trace.json.gz").read_bytes()))
    args = trace["traceEvents"][-1]["args"]
    args["long_name"] = args["long_name"].partition("1}}")[0]
    (tmp_path / "a.trace.json").write_text(json.dumps(trace))
    ingest_paths([str(tmp_path / "a.trace.json")], str(tmp_path / "w"))
    with Warehouse(str(tmp_path / "w")) as warehouse:
        found = warehouse.query("select kind, payload_bytes, group_size from collectives").rows
        codes = warehouse.query("select code from issues where severity = 'warning'").rows
    assert found == [("all-reduce", 9007199254740993, None)]
    assert ("bad_replica_groups",) in codes


def test_numbers_beyond_any_hardware_are_null_and_no_view_fails_for_them(tmp_path):
    """Sums of them do not fit, and a view would fail for every run of the warehouse."""
    huge, odd = (1 << 63) - 1, float("inf")
    plane = PlaneBuilder("/device:TPU:0", device_type_string="TPU v6 Lite")
    plane.event(plane.line("XLA Modules"), "jit_f(77)", 1000, 9000)
    ops = plane.line("XLA Ops")
    for place, (flops, moved) in enumerate([(huge, 8), (odd, 16), (5, huge)]):
        text = f"%fusion.{place} = f32[8]{{0}} fusion(f32[8]{{0}} %x)"
        stats = {"program_id": 77, "flops": flops, "bytes_accessed": moved}
        plane.event(ops, text, 2000 + 1000 * place, 500, f"fusion.{place}", stats)
    host = PlaneBuilder("/host:CPU")
    line = host.line("main")
    for place, bytes_now in enumerate((512, huge)):
        told = {"bytes_allocated": bytes_now, "peak_bytes_in_use": 1024, "index_on_host": 0}
        host.event(line, "MemoryAllocation", 2000 + 100 * place, 1, **told)
    (tmp_path / "a.xplane.pb").write_bytes(space(plane.plane, host.plane))
    ingest_paths([str(tmp_path / "a.xplane.pb")], str(tmp_path / "w"))
    with Warehouse(str(tmp_path / "w")) as warehouse:
        rows = warehouse.query("select flops, bytes_accessed from ops order by start_ps").rows
        (found,) = warehouse.query("select count from issues where code = 'bad_number'").rows
        values = warehouse.query("select max(value) from counters").rows
        for view in ("memory_timeline", "ccl_legacy"):
            assert warehouse.query(f"from {view}").rows is not None
    assert rows == [(None, 8), (None, 16), (5, None)]
    assert found == (4,)
    assert values == [(1024,)]


def test_times_of_two_days_are_refused(tmp_path):
    """Percents of longer ones do not fit, and a view would fail for every run of the warehouse."""
    two_days = 48 * 3600 * 10**12
    plane = PlaneBuilder("/device:TPU:0", device_type_string="TPU v6 Lite")
    for start, duration in ((1000, two_days), (two_days, 1000), (1000, 1000)):
        plane.event(plane.line("XLA Modules"), "jit_f(77)", start, duration)
    (tmp_path / "a.xplane.pb").write_bytes(space(plane.plane))
    ingest_paths([str(tmp_path / "a.xplane.pb")], str(tmp_path / "w"))
    with Warehouse(str(tmp_path / "w")) as warehouse:
        assert warehouse.query("select count from issues where code = 'bad_time'").rows == [(2,)]
        assert warehouse.query("select sum(events_rejected) from coverage").rows == [(2,)]


def test_digits_of_other_scripts_are_names_and_no_numbers(tmp_path):
    """To a regular expression of Rust they are digits; to a cast they are none."""
    host = PlaneBuilder("/host:CPU")
    line = host.line("main")
    told = {"bytes_allocated": 5, "peak_bytes_in_use": 6, "index_on_host": 0}
    host.event(line, "execute_model: \u0663 reqs, \u0661\u0662 toks", 100, 50, request_id1="\u0661")
    host.event(line, "execute_model: 1 reqs, 12 toks", 200, 50, request_id1="\u0661")
    host.event(line, "MemoryAllocation", 300, 1, allocator_name="TPU_\u0661_bfc", **told)
    raw = tpu_trace() + space(host.plane, hostnames=())
    (tmp_path / "a.xplane.pb").write_bytes(raw)
    ingest_paths([str(tmp_path / "a.xplane.pb")], str(tmp_path / "w"))
    with Warehouse(str(tmp_path / "w")) as warehouse:
        assert not warehouse.query("from issues where severity = 'error'").rows
        assert warehouse.query("select count(*) from host_events").rows == [(3,)]


def test_payloads_whose_sum_does_not_fit_are_null_with_a_finding(tmp_path):
    """A view of traffic would fail for every run of the warehouse; a smaller one beside them stays."""
    trace = json.loads(gzip.decompress((CASES / "huge_payload.trace.json.gz").read_bytes()))
    *names, event = trace["traceEvents"]
    sizes = [1 << 59, (1 << 59) + 1, (1 << 59) + 2, 1024]
    events = []
    for place, size in enumerate(sizes):
        text = event["args"]["long_name"].replace(str((1 << 53) + 1), str(size))
        text = text.replace("%f", f"%f.{place}")
        args = event["args"] | {"long_name": text.replace("all-reduce.1", f"all-reduce.{place}")}
        events.append(event | {"name": f"all-reduce.{place}", "ts": 10.0 * place, "args": args})
    (tmp_path / "a.trace.json").write_text(json.dumps(trace | {"traceEvents": [*names, *events]}))
    ingest_paths([str(tmp_path / "a.trace.json")], str(tmp_path / "w"))
    with Warehouse(str(tmp_path / "w")) as warehouse:
        found = warehouse.query("select payload_bytes from collectives order by start_ps").rows
        codes = warehouse.query("select count from issues where code = 'bad_number'").rows
        total = warehouse.query("select collectives, payload_bytes from run_summary").rows
    assert found == [(None,), (None,), (None,), (1024,)]
    assert codes == [(3,)]
    assert total == [(4, None)]


@pytest.mark.parametrize(
    ("payload", "times", "kept"),
    [
        ([1 << 59, 1 << 59, None], [1, 1, 5], [1 << 59, 1 << 59, None]),
        ([1 << 59, (1 << 59) + 1024, 8], [1, 1, 1], [None, None, 8]),
        ([1 << 30, 8], [1 << 31, None], [None, 8]),
        ([1 << 30, 8], [1 << 30, 1], [1 << 30, 8]),
    ],
)
def test_payloads_count_as_often_as_they_are_sent(payload, times, kept):
    found = summable(pl.Series("payload", payload), pl.Series(times))
    assert (found.name, found.to_list()) == ("payload", kept)
