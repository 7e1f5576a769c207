"""Host events read piece by piece, their stats told by array arithmetic, against protobuf's own reading."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest.build import PlaneBuilder, space
from tests.ingest.traces import host_event_rows, rows, write
from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.events.time_move import TimeMove
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.xplane import decoded_lines, host_pieces
from xlahouse.ingest.xplane.decode import DecodeError
from xlahouse.ingest.xplane.event_chunks import chunks
from xlahouse.ingest.xplane.host_pieces import HostPieces
from xlahouse.ingest.xplane.read import read_xplane
from xlahouse.ingest.xplane.stat_bytes import ODD, REFERENCE, SIGNED, UNSIGNED, read_stats
from xlahouse.ingest.xplane.xspace import decode_plane

NAMES = ["a", 'quo"te', "back\\slash", "_p"]
INT64 = st.integers(-(2**63), 2**63 - 1)
UINT64 = st.integers(0, 2**64 - 1)
VALUES = st.one_of(
    st.tuples(st.just("int64_value"), INT64),
    st.tuples(st.just("uint64_value"), UINT64),
    st.tuples(st.just("double_value"), st.floats()),
    st.tuples(st.just("str_value"), st.sampled_from([b"", b"text", b"x" * 200, b"\xff", b'"'])),
    st.tuples(st.just("bytes_value"), st.binary(max_size=3)),
    st.tuples(st.just("ref_value"), st.sampled_from([1, 2, 99])),
    st.just(("", None)),
)
STATS = st.lists(st.tuples(st.integers(1, 5), VALUES), max_size=4)


def stat(number, value):
    kind, content = value
    return message_class("XStat")(metadata_id=number, **({kind: content} if kind else {}))


def plane_of(events, titles=("e",)):
    """A plane of one line whose events have these stats; ids 1 to 4 have names, 5 has none."""
    built = PlaneBuilder("/host:CPU")
    for number, name in enumerate(NAMES, start=1):
        entry = built.plane.stat_metadata.add(key=number)
        entry.value.id, entry.value.name = number, name.encode()
    line = built.line("thread")
    for at, stats in enumerate(events):
        built.event(line, titles[at % len(titles)], at * 1000, 500)
        line.events[-1].stats.extend(stats)
    return decode_plane(memoryview(built.plane.SerializeToString()))


def told(value):
    """What JSON says of a value, by the rules of the column: bytes as hex, a number JSON lacks as text."""
    kind, content = value
    if kind == "bytes_value":
        return content.hex()
    if kind == "str_value":
        return content.decode("utf-8", "replace")
    if kind == "ref_value":
        return NAMES[content - 1] if content <= len(NAMES) else ""
    if kind == "double_value" and not np.isfinite(content):
        return {"inf": "inf", "-inf": "-inf", "nan": "NaN"}[str(content)]
    return "" if content is None else content


@given(st.lists(STATS, max_size=8))
@settings(max_examples=80)
def test_args_say_what_the_stats_do(drawn):
    plane = plane_of([[stat(*one) for one in stats] for stats in drawn])
    pairs = [
        [(NAMES[number - 1], told(value)) for number, value in stats if number <= len(NAMES)]
        for stats in drawn
    ]
    args = HostPieces(plane, "h").frame()["args"]
    assert args.is_null().to_list() == [not stats for stats in drawn]
    read = [json.loads(text, object_pairs_hook=list) for text in args.drop_nulls()]
    assert read == [found for found, stats in zip(pairs, drawn, strict=True) if stats]


@given(st.lists(st.tuples(st.integers(1, 20_000), VALUES), min_size=1, max_size=20))
@settings(max_examples=80)
def test_stats_are_read_as_protobuf_reads_them(drawn):
    serialized = [stat(*one).SerializeToString() for one in drawn]
    stats = read_stats(pa.array(serialized, pa.binary()))
    for kinds, name in (
        (SIGNED, "int64_value"),
        (UNSIGNED, "uint64_value"),
        (REFERENCE, "ref_value"),
    ):
        at = np.flatnonzero(stats.kinds == kinds)
        wanted = [number for n in at for field, number in [drawn[n][1]] if field == name]
        assert [int(value) % 2**64 for value in stats.integers(at)] == [n % 2**64 for n in wanted]
    odd = [number >= 1 << 14 for number, _ in drawn]
    assert (stats.kinds == ODD).tolist() == odd
    assert stats.ids[~np.array(odd)].tolist() == [n for n, _ in drawn if n < 1 << 14]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x08",
        b"\x08\x81",  # an id that does not end
        b"\x08\x01\x20",  # a number without digits
        b"\x08\x01\x20\x80",  # one that does not end
        b"\x08\x01\x20\x01\x20\x02",  # two values
        b"\x08\x01\x2a\x05abc",  # text shorter than it says
        b"\x08\x01\x11\x00\x00",  # half a double
        b"\x20\x05\x08\x01",  # the value first
        b"\x08\x01\x08\x02",  # the id twice
        b"\x08\x01\x20" + b"\xff" * 10 + b"\x01",  # eleven bytes of a number
    ],
)
def test_what_profilers_do_not_write_is_left_to_the_decoder(raw):
    assert read_stats(pa.array([raw, b"\x08\x01\x20\x07"], pa.binary())).kinds.tolist() == [
        ODD,
        SIGNED,
    ]


def test_an_odd_stat_costs_nothing():
    plane = plane_of([[stat(2, ("int64_value", 1))], [stat(1, ("int64_value", 5))]])
    line = bytes(plane.payloads[0]).replace(b"\x08\x01\x20\x05", b"\x20\x05\x08\x01")
    plane = replace(plane, payloads=[memoryview(line)])
    (chunk,) = chunks(plane)
    assert (chunk.stats.kinds == ODD).tolist() == [False, True]
    assert HostPieces(plane, "h").frame()["args"].to_list() == ['{"quo\\"te":1}', '{"a":5}']
    assert [column.tolist() for column in chunk.integers("a")] == [[1], [5]]


def test_a_damaged_stat_is_an_error():
    plane = plane_of([[stat(1, ("int64_value", 5))]])
    line = bytes(plane.payloads[0]).replace(b"\x08\x01\x20\x05", b"\x08\x01\x20\x85")
    (chunk,) = chunks(replace(plane, payloads=[memoryview(line)]))
    with pytest.raises(DecodeError):
        chunk.check_stats()


def threads():
    """Two lines of one name around another, out of order in time; the last event lasts less than nothing."""
    built = PlaneBuilder("/host:CPU")
    first, other, second = (built.line(name) for name in ("b", "a", "b"))
    for line, title, start in (
        (first, "late", 9000),
        (first, "early", 1000),
        (other, "alone", 5000),
        (second, "between", 4000),
    ):
        built.event(line, title, start, 10, k=start)
    built.event(second, "never", 7000, -1)
    return built.plane


def test_events_come_by_thread_and_start(monkeypatch):
    plane = decode_plane(memoryview(threads().SerializeToString()))
    wanted = [
        ("a", "alone", 5000),
        ("b", "early", 1000),
        ("b", "between", 4000),
        ("b", "late", 9000),
    ]
    for size in (1, 4 << 20):  # a line at a time, and all at once
        monkeypatch.setattr(decoded_lines, "CHUNK_BYTES", size)
        for length in (1, 2, 100):
            monkeypatch.setattr(host_pieces, "ROWS", length)
            tables = list(HostPieces(plane, "h").tables())
            assert max(table.num_rows for table in tables) <= length
            found = pl.DataFrame(
                pl.from_arrow(pa.concat_tables([t.unify_dictionaries() for t in tables]))
            )
            named = found.select(pl.col("thread", "name").cast(pl.String), "start_ps")
            assert named.rows() == wanted


def test_pieces_are_later_and_prefixed_and_leave_out_what_is_elsewhere():
    plane = decode_plane(memoryview(threads().SerializeToString()))
    pieces = HostPieces(plane, None, "p/", {0: np.array([1])}).moved(TimeMove(100))
    assert pieces.frame().select("host", "thread", "name", "start_ps", "args").rows() == [
        (None, "p/a", "alone", 5100, '{"k":5000}'),
        (None, "p/b", "between", 4100, '{"k":4000}'),
        (None, "p/b", "late", 9100, '{"k":9000}'),
    ]


def test_events_of_all_planes_of_a_file_are_written(tmp_path):
    known, unknown = PlaneBuilder("/host:CPU"), PlaneBuilder("/host:novel")
    known.event(known.line("t"), "step", 1000, 10, note="x")
    unknown.event(unknown.line("t"), "act", 2000, 10)
    path = write(tmp_path / "h.xplane.pb", space(known.plane, unknown.plane, threads()))
    (result,) = ingest_paths([path], str(tmp_path / "wh"))
    assert result.rows["host_events"] == 6
    table = rows(tmp_path / "wh", "host_events")
    assert table["run_id"].unique().to_list() == [result.run_id]
    assert table.filter(pl.col("thread").str.contains("t")).select(
        "host", "thread", "name", "start_ps", "duration_ps", "args"
    ).sort("thread").rows() == [
        ("host0", "/host:novel/t", "act", 2000, 10, None),
        ("host0", "t", "step", 1000, 10, '{"note":"x"}'),
    ]
    coverage = rows(tmp_path / "wh", "coverage")
    refused = coverage.filter(pl.col("events_rejected") > 0)
    assert refused.select("line", "table_name", "events_rejected").rows() == [("b", None, 1)]
    assert coverage["rows_written"].sum() == 6


def test_an_event_whose_kind_the_plane_lacks_has_no_name():
    built = PlaneBuilder("/host:CPU")
    line = built.line("t")
    built.event(line, "known", 0, 1)
    line.events.add(metadata_id=77, offset_ps=1000, duration_ps=1)
    (plane,) = read_xplane(space(built.plane), "h.xplane.pb").planes
    assert host_event_rows(plane)["name"].to_list() == ["known", None]


def test_a_long_line_comes_in_parts(monkeypatch):
    plane = plane_of([[stat(4, ("int64_value", at))] if at % 3 else [] for at in range(10)])
    whole = HostPieces(plane, "h", elsewhere={0: np.array([2, 3, 7])})
    wanted = [(at * 1000, f'{{"_p":{at}}}' if at % 3 else None) for at in (0, 1, 4, 5, 6, 8, 9)]
    for size in (1, 3, 4, 10, 1000):
        monkeypatch.setattr(decoded_lines, "CHUNK_EVENTS", size)
        assert whole.frame().select("start_ps", "args").rows() == wanted
        assert [chunk.first for chunk in chunks(plane)] == list(range(0, 10, size))


def test_lines_that_were_decoded_once_are_taken(monkeypatch):
    built = PlaneBuilder("/host:CPU")
    for name, count in (("z", 1), ("long", 20), ("a", 1)):
        line = built.line(name)
        for at in range(count):
            built.event(line, "e", at * 1000, 500, k=at)
    plane = decode_plane(memoryview(built.plane.SerializeToString()))
    monkeypatch.setattr(decoded_lines, "CHUNK_BYTES", 100)  # short lines take about 30
    monkeypatch.setattr(decoded_lines, "CHUNK_EVENTS", 7)
    kept = {}
    assert [chunk.first for chunk in chunks(plane, keep=kept)] == [0, 1, 8, 15, 21]
    assert list(kept) == [(1,)]
    first, long, last = plane.payloads
    spoiled = replace(plane, payloads=[first, memoryview(b"\xff" * len(long)), last])
    pieces = HostPieces(spoiled, "h", decoded=kept)
    wanted = [
        (name, at * 1000, 500, f'{{"k":{at}}}')
        for name, count in (("a", 1), ("long", 20), ("z", 1))
        for at in range(count)
    ]
    assert pieces.frame().select("thread", "start_ps", "duration_ps", "args").rows() == wanted
    assert not kept  # gone with their first use, so that they are in memory no longer than needed
    with pytest.raises(DecodeError):
        pieces.frame()


def test_events_that_have_no_stats_or_a_large_kind_are_kept_as_they_are(monkeypatch):
    built = PlaneBuilder("/host:CPU")
    line = built.line("t")
    for number in (1, 2**40):
        entry = built.plane.event_metadata.add(key=number)
        entry.value.id, entry.value.name = number, f"kind {number}".encode()
        line.events.add(metadata_id=number, offset_ps=number, duration_ps=2**40)
    plane = decode_plane(memoryview(built.plane.SerializeToString()))
    monkeypatch.setattr(decoded_lines, "CHUNK_BYTES", 1)
    kept = {}
    list(chunks(plane, keep=kept))
    (cores,) = kept.values()
    assert sum(len(core.line) for core in cores) == 2
    assert HostPieces(plane, "h", decoded=kept).frame().select(
        "name", "start_ps", "duration_ps", "args"
    ).rows() == [("kind 1", 1, 2**40, None), (f"kind {2**40}", 2**40, 2**40, None)]
