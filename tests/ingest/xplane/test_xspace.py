"""Cutting and decoding XSpaces, whole and damaged."""

from __future__ import annotations

import json
from contextlib import suppress

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest.build import PlaneBuilder, space
from tests.ingest.traces import host_event_rows, whole
from xlahouse.capture.errors import TraceFormatError
from xlahouse.ingest.events.frames import owned
from xlahouse.ingest.xplane.read import read_xplane
from xlahouse.ingest.xplane.unknown_fields import unknown_fields
from xlahouse.ingest.xplane.wire import plane_name, split_space
from xlahouse.ingest.xplane.xspace import decode_planes


def small():
    built = PlaneBuilder("/host:CPU", build="x")
    line = built.line("python", timestamp_ns=3)
    built.event(
        line, "work", 5_000, 2_000, request=7, note='hi "there"\n', rate=0.5, raw=b"\x01\xff"
    )
    built.event(line, "more", 9_000, 1)
    return built


def decoded(raw):
    return list(decode_planes(split_space(raw, "f"), "f"))


def test_events_lines_and_stats():
    (plane,) = decoded(space(small().plane))
    rows = plane.named_events.select("thread", "name", "start_ps", "duration_ps").rows()
    # start = line timestamp 3 ns + offset; the builder's offsets are relative to it
    assert rows == [("python", "work", 5_000, 2_000), ("python", "more", 9_000, 1)]
    assert plane.event_stats.numbers("request").rows() == [(0, 7)]
    assert plane.event_stats.texts("note").rows() == [(0, 'hi "there"\n')]
    assert plane.event_stats.numbers("rate", pl.Float64).rows() == [(0, 0.5)]
    assert plane.stat("build") == b"x"
    assert plane.stat("absent") is None


def test_stats_as_json():
    (plane,) = decoded(space(small().plane))
    ((event, text),) = plane.event_stats.as_json(plane.events["event"]).rows()
    assert event == 0
    assert json.loads(text) == {"request": 7, "note": 'hi "there" ', "rate": 0.5, "raw": "01ff"}


def test_reference_stats_and_big_unsigned_numbers():
    built = PlaneBuilder("p")
    line = built.line("l")
    built.event(line, "e", 0, 1, program=2**63 + 5)
    built._stats["label"] = 77
    built.plane.stat_metadata.add(key=77).value.name = b"label"
    built.plane.stat_metadata.add(key=78).value.name = b"the text"
    line.events[0].stats.add(metadata_id=77, ref_value=78)
    (plane,) = decoded(space(built.plane))
    assert plane.event_stats.texts("label").rows() == [(0, "the text")]
    assert plane.event_stats.numbers("program", pl.UInt64).rows() == [(0, 2**63 + 5)]


def test_names_that_are_no_utf8_are_kept_readable():
    built = PlaneBuilder("p")
    line = built.line("l")
    built.event(line, "x", 0, 1)
    built.plane.event_metadata[0].value.name = b"good \xff bad"
    (plane,) = decoded(space(built.plane))
    assert plane.named_events["name"].to_list() == ["good � bad"]


def test_plane_names_are_read_without_decoding():
    split = split_space(space(small().plane, PlaneBuilder("Task Environment").plane), "f")
    assert [plane_name(plane) for plane in split.planes] == ["/host:CPU", "Task Environment"]
    assert split.hostnames == ["host0"]


def test_empty_file_is_refused():
    with pytest.raises(TraceFormatError, match=r"f: the file is empty"):
        split_space(b"", "f")


def test_another_format_is_refused():
    with pytest.raises(TraceFormatError, match="not an XSpace"):
        split_space(b'{"traceEvents": []}', "f")


def test_mangled_file_is_recognised():
    raw = space(small().plane) * 40
    mangled = raw.decode("utf-8", "replace").encode() + b"\xef\xbf\xbd" * len(raw)
    with pytest.raises(
        TraceFormatError, match=r"text codec destroyed it: U\+FFFD replaces bytes [\d,]+ times"
    ):
        split_space(mangled, "f")


def test_truncated_file_keeps_the_whole_planes():
    raw = space(small().plane, small().plane, hostnames=())
    read = read_xplane(raw[:-5], "h.xplane.pb")
    assert [issue.code for issue in read.issues] == ["truncated"]
    assert host_event_rows(*whole(read)).height == 2
    assert read.host == "h"


def test_damaged_plane_costs_itself():
    read = read_xplane(space(b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", small().plane), "f")
    assert [issue.code for issue in read.issues] == ["damaged_plane"]
    assert host_event_rows(*whole(read)).height == 2


@settings(max_examples=150)
@given(st.data())
def test_no_damage_makes_a_traceback(data):
    """Flip, cut or splice bytes: it is read, or refused with the one error made for that."""
    raw = bytearray(
        space(small().plane, PlaneBuilder("/device:TPU:0", core_details=b"(\x04").plane)
    )
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "splice"]))
        if kind == "flip":
            raw[at] ^= data.draw(st.integers(1, 255))
        elif kind == "cut":
            del raw[at : at + data.draw(st.integers(1, 8))]
        else:
            raw[at:at] = data.draw(st.binary(min_size=1, max_size=8))
        if not raw:
            break
    with suppress(TraceFormatError):
        read_xplane(bytes(raw), "f")


@pytest.mark.parametrize("field", [b"\x1a", b"\x22"])
@pytest.mark.parametrize("instead", [b"\x7a", b"\x12"])
def test_what_decoders_pass_over_is_counted(field, instead):
    """A line, or an event, under a field number that the format lacks, or as a second name."""
    plane = PlaneBuilder("/host:CPU")
    plane.event(plane.line("python"), "work", 0, 5)
    raw = plane.plane.SerializeToString()
    assert unknown_fields([memoryview(raw)]) == 0
    at = raw.index(field, raw.index(b"/host:CPU"))
    odd = raw[:at] + instead + raw[at + 1 :]
    assert unknown_fields([memoryview(odd)]) == 1


def test_an_event_that_takes_in_the_next_is_counted():
    """To a decoder the next event is one more stat, of which it drops what does not fit."""
    plane = PlaneBuilder("/host:CPU")
    line = plane.line("python")
    for start in (200, 300, 400):
        plane.event(line, "work", start, 5)
    raw = plane.plane.SerializeToString()
    assert unknown_fields([memoryview(raw)]) == 0
    event = raw[raw.index(b"\x22\x07\x08") :][:9]  # a tag, a length of 7, and an event
    assert raw.count(event[:3]) == 3
    odd = raw.replace(event, b"\x22\x10" + event[2:])  # and the 9 bytes of the next
    assert unknown_fields([memoryview(odd)]) == 1
    (plane,) = decode_planes(split_space(space(odd), "a"), "a")
    assert plane.events.height == 2


def test_what_is_kept_of_a_plane_shares_no_memory_with_what_was_decoded():
    decoded = pl.DataFrame({"start_ps": [1, 2], "name": ["a", None]})
    kept = owned(decoded)
    assert kept.equals(decoded)
    assert not np.shares_memory(kept["start_ps"].to_numpy(), decoded["start_ps"].to_numpy())
    assert owned(decoded.clear()).schema == decoded.schema
