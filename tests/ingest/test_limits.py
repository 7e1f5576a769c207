"""Traces that ask for too much: what exceeds a limit is left out, and the message names the limit."""

from __future__ import annotations

import gzip
import zlib

import pytest

from tests.ingest.build import PlaneBuilder, space
from tests.ingest.traces import tpu_trace
from xlahouse.capture.errors import LimitError, TraceFormatError, XlahouseError
from xlahouse.ingest.formats import read_trace
from xlahouse.ingest.hlo.dumps import list_dumps, match_dumps
from xlahouse.ingest.run import IngestError, ingest_paths

EVENT = '{"ph":"X","pid":1,"tid":1,"ts":%d,"dur":1,"name":"e"}'
NAMED = '{"ph":"M","pid":1,"name":"process_name","args":{"name":"/host:CPU"}}'


def chrome(*events, before="", after=""):
    return f'{{{before}"traceEvents":[{",".join((NAMED, *events))}]{after}}}'.encode()


def codes(read):
    return {issue.code: issue for issue in read.issues}


def limits(monkeypatch, text):
    monkeypatch.setenv("XLAHOUSE_LIMITS", text)


def zeros(size):
    """A gzip of zeros, a thousandth of their size."""
    packer, block = zlib.compressobj(9, zlib.DEFLATED, 31), bytes(1 << 20)
    return b"".join([*(packer.compress(block) for _ in range(size >> 20)), packer.flush()])


@pytest.mark.parametrize("name", ["a.xplane.pb.gz", "a.trace.json.gz"])
def test_a_gzip_of_zeros_costs_itself(name, tmp_path):
    (tmp_path / name).write_bytes(zeros(160 << 20))
    (tmp_path / "good.xplane.pb").write_bytes(tpu_trace())
    with pytest.raises(IngestError, match=r"--limits (unpacked_ratio|json_bytes)=NUMBER") as caught:
        ingest_paths([str(tmp_path)], str(tmp_path / "w"))
    assert [result.name for result in caught.value.results] == ["good"]


def test_what_was_unpacked_before_a_limit_is_kept(monkeypatch):
    raw = gzip.compress(chrome(*(EVENT % at for at in range(1000))))
    limits(monkeypatch, "unpacked_bytes=20000")
    read = read_trace(raw, "a.trace.json.gz")
    assert "--limits unpacked_bytes=NUMBER" in codes(read)["truncated"].message
    assert 300 < sum(plane.coverage["events_read"].sum() for plane in read.planes) < 500


def test_events_beyond_the_limit_are_left_out_with_a_finding(monkeypatch):
    blocks = 6 << 20  # more than one block, after which reading may end
    raw = chrome(*(EVENT % at for at in range(blocks // 50)))
    limits(monkeypatch, "events=10")
    read = read_trace(raw, "a.trace.json")
    assert "more than 10 events of a plane" in codes(read)["limit_exceeded"].message
    assert "truncated" not in codes(read)


def test_an_event_beyond_the_limit_is_left_out_with_a_finding(monkeypatch):
    limits(monkeypatch, "json_bytes=100000")
    long = EVENT.replace('"e"', '"' + "x" * (10 << 20) + '"') % 1
    read = read_trace(chrome(EVENT % 0, long, EVENT % 2), "a.trace.json")
    assert "--limits json_bytes=NUMBER" in codes(read)["limit_exceeded"].message


def test_a_header_beyond_the_limit_is_left_out(monkeypatch):
    limits(monkeypatch, "json_bytes=100000")
    long = ',"rest":"' + "x" * (12 << 20) + '"'
    read = read_trace(chrome(EVENT % 0, after=long), "a.trace.json")
    assert codes(read)["limit_exceeded"].count == 1
    assert sum(plane.coverage["events_read"].sum() for plane in read.planes) == 1


@pytest.mark.parametrize("depth", [100_000])
def test_deep_nesting_costs_its_event(depth):
    deep = EVENT.replace('"e"', '"e","args":{"a":' + "[" * depth + "]" * depth + "}") % 1
    read = read_trace(chrome(EVENT % 0, deep, EVENT % 2), "a.trace.json")
    assert sum(plane.coverage["events_read"].sum() for plane in read.planes) >= 2


def plane(name, lines, events):
    built = PlaneBuilder(name)
    for number in range(lines):
        line = built.line(f"l{number}")
        for at in range(events):
            built.event(line, "e", at, 1)
    return built.plane


@pytest.mark.parametrize("limit", ["events=10", "lines=3"])
def test_a_plane_beyond_a_limit_costs_itself(limit, monkeypatch):
    raw = space(plane("/host:a", 1, 3), plane("/host:b", 5, 5))
    limits(monkeypatch, limit)
    read = read_trace(raw, "a.xplane.pb")
    assert [set(found.coverage["plane"]) for found in read.planes] == [{"/host:a"}]
    message = codes(read)["limit_exceeded"].message
    assert "plane '/host:b': more than" in message
    assert f"--limits {limit.partition('=')[0]}=NUMBER" in message


def test_a_file_of_too_many_planes_is_refused():
    with pytest.raises(LimitError, match=r"more than 4,096 planes.*--limits planes="):
        read_trace(b"\x0a\x00" * ((1 << 12) + 1), "a.xplane.pb")


def test_dumps_have_limits(monkeypatch, tmp_path):
    for number in range(3):
        (tmp_path / f"m{number}.hlo.txt").write_text("HloModule m\n\nENTRY e {\n}\n")
    limits(monkeypatch, "dump_files=2")
    with pytest.raises(
        XlahouseError, match=r"more than 2 files of an HLO dump.*--limits dump_files="
    ):
        list_dumps(str(tmp_path))
    limits(monkeypatch, "dump_bytes=5")
    _, issues = match_dumps(list_dumps(str(tmp_path)), {1: "m"}, "run", {})
    assert {issue.code for issue in issues} == {"limit_exceeded"}


def test_an_unreadable_file_still_says_what_it_is():
    with pytest.raises(TraceFormatError, match="cut off"):
        read_trace(gzip.compress(b"not json" * 100)[:20], "a.trace.json.gz")
