"""Chrome JSON as it really is: containers, damage, numbers, and what is kept of each."""

from __future__ import annotations

import gzip
import json
import random

import pyarrow as pa
import pytest

from tests.ingest.chrome_build import (
    ALWAYS,
    coverage_of,
    document,
    event,
    issues_of,
    point,
    spans_of,
)
from xlahouse.capture.errors import TraceFormatError
from xlahouse.ingest.chrome.columns import read_columns
from xlahouse.ingest.chrome.read import read_chrome
from xlahouse.ingest.events.containers import Unpacked, unpack

ONE = ("op", 1_000_000, 2_000_000)
TWO = ("two", 9_000_000, 2_000_000)


def zstd(raw):
    return pa.Codec("zstd").compress(raw, asbytes=True)


@pytest.mark.parametrize(
    "pack",
    [
        bytes,
        gzip.compress,
        zstd,
        lambda raw: gzip.compress(raw[:40]) + gzip.compress(raw[40:]),
        lambda raw: gzip.compress(raw) + b"\0" * 512,
        lambda raw: b"\xef\xbb\xbf" + raw,
    ],
    ids=["plain", "gzip", "zstd", "members", "padded", "byte order mark"],
)
def test_a_container_is_known_by_its_first_bytes(pack):
    raw = pack(document(event(), event("two", 9)))
    assert spans_of(raw) == [ONE, TWO]
    assert issues_of(raw) == {"unknown_plane": 2}


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_a_container_that_is_cut_off_keeps_what_is_whole(pack):
    # Names that do not compress, so that a part of the container holds a part of the events.
    names = random.Random(1)
    text = document(*(event(f"{names.random()}", n, 1) for n in range(100_000)))
    packed = pack(text)
    kept, damage = unpack(packed[: len(packed) * 3 // 4])
    assert damage is not None
    assert text.startswith(kept)
    assert len(kept) > len(text) // 4
    found = issues_of(packed[: len(packed) * 3 // 4])
    assert found["truncated"] == 1
    whole = kept.count(b"}, {") + kept.count(b"},{")
    assert abs(found["unknown_plane"] - whole) <= 1


def test_gzip_keeps_what_stands_before_a_flipped_byte_and_before_bytes_that_are_none():
    text = bytes(random.Random(2).randbytes(300_000))
    packed = gzip.compress(text)
    flipped = packed[:-8] + b"12345678"  # the checksum alone is wrong
    assert unpack(flipped)[0] == text
    assert "damaged" in str(unpack(flipped)[1])
    assert unpack(packed + b"junk") == (text, f"no gzip data from byte {len(packed):,} on")
    assert unpack(packed[:5]) == (b"", "its gzip data is cut off")


def test_blocks_come_one_by_one():
    assert [len(block) for block in Unpacked(b"x" * (5 << 20))] == [4 << 20, 1 << 20]


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"[" + event().encode() + b"]", {}),
        (document(event(), "{}"), {}),
        (document(event(), "").replace(b",]", b", ]"), {}),
        (b"[" + event().encode(), {"truncated": 1}),
        (b"[" + event().encode() + b",\n", {"truncated": 1}),
        (document(event())[:-1] + b',"traceName":"x","list":[{"a":1},{"b":2}]}', {}),
        (b'{"list":[{"a":1},{"b":2}],"traceEvents" : [' + event().encode() + b"]}", {}),
    ],
    ids=["bare", "empty last", "last comma", "no end", "comma, no end", "tail", "head"],
)
def test_forms_of_the_array(raw, found):
    assert spans_of(raw) == [ONE]
    assert issues_of(raw) == found | {"unknown_plane": 1}


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"not json", b'{"traceEvents":[]}', b"[]", b"\x1f\x8b"]
)
def test_no_events_is_an_error(raw):
    with pytest.raises(TraceFormatError):
        read_chrome(raw, "f.trace.json")


BAD = [("x", 5_000_000, 1_000_000)]
ARGS = event("x", 5, 1, args={"a": 0})
MENDED = {"mended_event": 1}


@pytest.mark.parametrize(
    ("damaged", "kept", "found"),
    [
        (event("~", 5, 1).replace("~", 'b"a"d'), [('b"a"d', 5_000_000, 1_000_000)], MENDED),
        (event("~", 5, 1).replace("~", "b\x01d"), [("b d", 5_000_000, 1_000_000)], MENDED),
        (ARGS.replace('"a": 0', '"a": NaN'), BAD, MENDED),
        (ARGS.replace('"a": 0', '"a": "q"q"'), BAD, MENDED),
        (event("x", 5, 1)[:-1] + ",}", BAD, MENDED),
        (event("x", "5..x", 1), [], {"damaged_event": 1}),
        ('{"ph": "X", "pi' + event("x", 5, 1), BAD, {"damaged_event": 1}),
        (event("x", "NaN", 1), [], MENDED | {"bad_time": 1}),
        (event("x", 5, "-Infinity"), [], MENDED | {"bad_time": 1}),
        (event("x", 5, "inf"), [], MENDED | {"bad_time": 1}),
    ],
    ids=[
        "quote",
        "control",
        "nan",
        "args",
        "comma",
        "ts",
        "splice",
        "ts nan",
        "dur -inf",
        "dur inf",
    ],
)
def test_damage_costs_what_is_damaged(damaged, kept, found):
    raw = document(event(), damaged, event("two", 9))
    assert spans_of(raw) == [ONE, *kept, TWO]
    rows = {"unknown_plane": 2 + len(kept)}
    assert issues_of(raw) == found | rows


@pytest.mark.parametrize(
    ("raw", "codes"),
    [
        (b'{"a": 1, "traceEvents": [%s], "b": 2}', []),
        (b'{"a": \x00, "traceEvents": [%s]}', ["damaged_header"]),
        (b'{"traceEvents": [%s], "b": 2', ["damaged_header"]),
        (b'{"traceEvents": [%s]} more', ["damaged_event", "truncated"]),
        (b"[%s]", []),
    ],
)
def test_damage_around_the_events_is_said(raw, codes):
    """Events that are missing beside it leave no trace of their own."""
    text = raw % event("a").encode()
    assert len(spans_of(text)) == 1
    assert sorted(issues_of(text).keys() - ALWAYS) == codes


def test_invalid_utf8_is_replaced_in_names_and_arguments():
    raw = document(event("caf~", args={"a": "~"}), event("two", 9)).replace(b"~", b"\xff")
    assert [name for name, *_ in spans_of(raw)] == ["caf\ufffd", "two"]
    assert "\ufffd" in read_columns(raw).events["args"][0]


def test_an_event_may_hold_what_looks_like_the_place_between_two():
    inner = {"list": [{"a": 1}, {"b": 2}], "text": "},{"}
    raw = document(*(event(f"e{n}", n, 1, args=inner) for n in range(60_000)))
    assert len(raw) > 5 << 20  # more than a block
    assert [name for name, *_ in spans_of(raw)] == [f"e{n}" for n in range(60_000)]


@pytest.mark.parametrize(
    ("ts", "ps"),
    [
        ("1", 1_000_000),
        ("1212862.6726019999", 1_212_862_672_602),
        ("9.9999999999999995e-07", 1),
        ("0.0000004", 0),
        ('"3.5"', 3_500_000),
        ("1e3", 1_000_000_000),
    ],
)
def test_times_are_whole_picoseconds(ts, ps):
    assert spans_of(document(event(ts=ts)))[0][1] == ps


@pytest.mark.parametrize("unit", ["ms", "ns", "years", 7, None])
@pytest.mark.parametrize(
    "form", ['{"displayTimeUnit":~,"traceEvents":[*]}', '{"traceEvents":[*],"displayTimeUnit":~}']
)
def test_times_are_microseconds_whatever_unit_a_viewer_is_told_to_show(form, unit):
    raw = form.replace("~", json.dumps(unit)).replace("*", event(ts=3, dur=0.5))
    assert spans_of(raw.encode()) == [("op", 3_000_000, 500_000)]


def test_numbers_beyond_64_bits_cost_times_alone():
    huge = 2**64 + 5
    raw = document(
        event("a", 1, 2, pid=huge, tid=huge), event("b", 9, 2, pid=str(huge), tid=str(huge)),
        event("c", 20, 1, pid=huge, tid=huge, args={"x": 2**70, "y": -(2**90)}),
        point("C", 25, "n", pid=huge, tid=huge, args={"v": 2**70}),
        point("s", 26, "flow", pid=huge, tid=huge, id=2**70),
        event("late", 10**30, 1, pid=huge, tid=huge), event("long", 30, 10**30, pid=huge, tid=huge),
    )  # fmt: skip
    (plane,) = read_chrome(raw, "f").planes
    args = {"c": f'{{"x": {2**70}, "y": {-(2**90)}}}'}
    assert plane.host_events.select("name", "start_ps", "args").rows() == [
        ("a", 1_000_000, None),
        ("b", 9_000_000, None),
        ("c", 20_000_000, args["c"]),
    ]
    assert plane.counters["value"].to_list() == [2.0**70]
    assert issues_of(raw)["bad_time"] == 2
    assert coverage_of(raw) == {
        (str(huge), "host_events"): (3, 3, 0),
        (str(huge), "launches"): (1, 1, 0),
        (str(huge), "counters"): (1, 1, 0),
        (str(huge), None): (2, 0, 2),
    }


def test_unix_times_keep_every_digit_that_a_double_would_lose():
    first, second = "1682725897235555.001", "1682725897235555.002"  # a double's spacing is 0.25
    raw = document(event("a", first, "0.001"), event("b", f'"{second}"', '"0.0015"'))
    assert spans_of(raw) == [("a", 1_000, 1_000), ("b", 2_000, 1_500)]
    assert read_chrome(raw, "f").profile_start_ns == 1682725897235555 * 1000


def test_times_of_any_size_are_exact_whatever_form_stands_beside_them():
    late = 1682725897235555  # microseconds, which a double tells to 0.25 alone
    day = 86_400_000_000.000_001
    forms = {
        "whole": (late + 1, "2.5"),
        "fraction": (f"{late + 2}.000001", "3"),
        "long": (late + 3, "86400000000.000001"),
        "no number": (late + 4, '"4"'),
    }
    found = {
        "whole": (1_000_000, 2_500_000),
        "fraction": (2_000_001, 3_000_000),
        "long": (3_000_000, 86_400_000_000_000_001),
        "no number": (4_000_000, 4_000_000),
    }
    assert int(day * 1_000_000) != found["long"][1]  # as a double would have it
    for count in range(1, len(forms) + 1):
        names = list(forms)[:count]
        raw = document(event("first", late, 1), *(event(name, *forms[name]) for name in names))
        assert spans_of(raw)[1:] == [(name, *found[name]) for name in names]


def test_base_time_places_times_on_the_unix_clock():
    raw = document(
        event("a", "4203669603018.756", 1), tail=',"baseTimeNanoseconds":1735632360000000000}'
    )
    read = read_chrome(raw, "f")
    assert read.profile_start_ns == 1735632360000000000 + 4203669603018 * 1000
    assert read.planes[0].host_events["start_ps"].to_list() == [756_000]


@pytest.mark.parametrize(
    ("events", "kept", "refused"),
    [
        ([event("n", 5, -1)], [], 1),
        ([event("z", 5, 0)], [("z", 5_000_000, 0)], 0),
        ([event("none", 5, "null")], [], 1),
        ([event("early", -5, 1)], [], 1),
        ([event("far", "1e300", 1)], [], 1),
        ([event("long", 5, "1e30")], [], 1),
    ],
    ids=["negative", "zero", "absent", "before zero", "far", "endless"],
)
def test_times_that_are_none_are_refused_and_counted(events, kept, refused):
    raw = document(event(), *events, event("two", 9))
    assert spans_of(raw) == [ONE, *kept, TWO]
    assert issues_of(raw).get("bad_time", 0) == refused
    read, written, rejected = map(sum, zip(*coverage_of(raw).values(), strict=True))
    assert (read, written, rejected) == (3, 2 + len(kept), refused)


def test_a_time_of_zero_beside_unix_times_is_refused():
    raw = document(event("a", 1682725897235555, 1), event("zero", 0, 1))
    assert spans_of(raw) == [("a", 0, 1_000_000)]
    assert issues_of(raw)["bad_time"] == 1


def test_an_end_closes_the_innermost_begin_of_its_name():
    raw = document(
        point("B", 1, "a"), point("B", 2, "b"), point("B", 3, "a"), point("E", 4, "a"),
        point("E", 6, "b"), point("E", 9, "a"), point("B", 10, "open"), point("E", 11, "never"),
        point("B", 1, "a", tid=2), point("E", 20, "", tid=2),
    )  # fmt: skip
    found = [
        ("a", 1_000_000, 8_000_000), ("a", 1_000_000, 19_000_000),
        ("b", 2_000_000, 4_000_000), ("a", 3_000_000, 1_000_000),
    ]  # fmt: skip
    assert spans_of(raw) == found
    assert issues_of(raw)["unpaired_event"] == 2
    assert coverage_of(raw) == {
        ("1", "host_events"): (6, 6, 0),
        ("1", None): (2, 0, 2),
        ("2", "host_events"): (2, 2, 0),
    }


def test_ids_and_lines_are_the_same_as_numbers_and_as_strings():
    raw = document(point("B", 1, pid=7, tid=8), point("E", 3, pid="7", tid="8"))
    assert spans_of(raw) == [ONE]
    asynchronous = document(
        point("b", 1, id="0x1", cat="c"), point("e", 3, id="0x1", cat="c", tid=5)
    )
    assert spans_of(asynchronous) == [ONE]


def test_points_and_counters_are_kept_and_arrows_and_unknown_phases_counted():
    raw = document(
        point("i", 1), point("C", 2, "mem", args={"a": 1, "b": "2"}), point("s", 3, id=4), point("?", 5)
    )  # fmt: skip
    plane = read_chrome(raw, "f").planes[0]
    assert plane.counters.select("name", "start_ps", "value").rows() == [
        ("mem a", 2_000_000, 1.0),
        ("mem b", 2_000_000, 2.0),
    ]
    assert plane.host_events.select("name", "start_ps", "args").rows() == [("op", 1_000_000, None)]
    assert coverage_of(raw) == {
        ("1", "host_events"): (1, 1, 0),
        ("1", "launches"): (
            1,
            1,
            0,
        ),  # an arrow is a time of enqueue there, where it ends at a launch
        ("1", "counters"): (1, 1, 0),
        ("1", None): (1, 0, 1),
    }
    assert issues_of(raw)["unknown_phase"] == 1


def test_a_trace_at_the_exporters_cap_is_marked(monkeypatch):
    name = '{"ph":"M","pid":1,"name":"process_name","args":{"name":"/host:CPU"}}'
    raw = document(event(), event("two", 9), name)
    assert issues_of(raw) == {}
    monkeypatch.setattr("xlahouse.ingest.chrome.read.MOST_EVENTS", 2)
    assert issues_of(raw) == {"events_capped": 2}
