"""What is done otherwise for small files, planes and frames gives the same tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.same import tables_of
from tests.synth.cases import CASES
from tests.synth.write import write_run
from xlahouse.ingest.events import arrow_arrays, frames, trace_bytes
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.xplane import opened, read, xspace
from xlahouse.ingest.xplane.stats import of_owners, with_sign
from xlahouse.ingest.xplane.xspace import small_together


def as_if_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_bytes, "SMALL_FILE", 0)
    for module in (opened, read):
        monkeypatch.setattr(module, "SMALL_PLANE", 0)
    monkeypatch.setattr(frames, "FEW", 0)
    monkeypatch.setattr(xspace, "_TOGETHER", 0)
    monkeypatch.setattr(arrow_arrays, "_SHORT", 0)


def test_a_small_run_has_the_tables_of_a_large_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(CASES["dp_tp"], tmp_path / "in")
    ingest_paths([str(tmp_path / "in")], str(tmp_path / "small"))
    as_if_large(monkeypatch)
    ingest_paths([str(tmp_path / "in")], str(tmp_path / "large"))
    small, large = (tables_of(tmp_path / name) for name in ("small", "large"))
    assert small.keys() == large.keys()
    assert not [name for name in small if not small[name].equals(large[name])]
    assert small["ops"].height


@pytest.mark.parametrize("few", [0, 9])
def test_frames_of_any_size(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FEW", few)
    lines = pl.DataFrame({"name": ["a", "b", "a", None]})
    assert frames.lanes(lines, ["name"]).to_list() == [0, None, 2, None]
    found, place = frames.distinct(lines)
    assert (found["name"].to_list(), place.tolist()) == (["a", "b", None], [0, 1, 0, 2])
    assert list(frames.distinct_rows(lines)) == [("a",), ("b",), (None,)]
    rows = frames.conform(pl.DataFrame({"name": ["x", "y"], "value": [1, 2]}), frames.COUNTERS)
    assert rows.schema == frames.COUNTERS
    assert rows.rows() == [(None, "x", None, 1.0), (None, "y", None, 2.0)]
    events = pl.DataFrame({"thread": ["t", "t", "u"], "table_name": ["ops", "ops", "launches"]})
    found = frames.coverage_rows("s", "p", events, events[:1].select("thread"))
    assert sorted(found.rows(), key=str) == [
        ("s", "p", "t", "ops", 2, 2, 0),
        ("s", "p", "t", None, 1, 0, 1),
        ("s", "p", "u", "launches", 1, 1, 0),
    ]


def test_numbers_keep_their_bits() -> None:
    few, wide = pl.Series([5, None], dtype=pl.UInt64), pl.Series([1 << 63, None], dtype=pl.UInt64)
    assert with_sign(few, True).to_list() == [5, None]
    assert with_sign(wide, True).to_list() == [-(1 << 63), None]
    assert with_sign(pl.Series([-1, 7]), False).to_list() == [(1 << 64) - 1, 7]
    assert with_sign(pl.Series([0, 7]), False).dtype == pl.UInt64


def test_times_that_cannot_be_are_refused_among_few() -> None:
    events = pl.DataFrame(
        {"start_ps": [0, -1, 5, None, 7], "duration_ps": [1, 1, -1, 1, frames.LATEST_PS]}
    )
    kept, refused = frames.split_bad_times(events)
    assert (kept["start_ps"].to_list(), refused["start_ps"].to_list()) == ([0, 7], [-1, 5, None])
    kept, refused = frames.split_bad_times(events[:1])
    assert (kept.height, refused.height, refused.schema) == (1, 0, events.schema)


def test_a_stat_by_owner() -> None:
    stat = pl.DataFrame({"owner": [2, 5], "flops": [7.0, 9.0]})
    assert of_owners(stat, np.array([5, 1, 2, 8])).to_list() == [9.0, None, 7.0, None]
    assert of_owners(stat[:0], np.array([5, 1])).to_list() == [None, None]
    assert of_owners(stat, np.array([], np.int64)).dtype == pl.Float64


@pytest.mark.parametrize(
    ("sizes", "places"),
    [([], [(0, 0)]), ([9], [(0, 1)]), ([2, 2, 1, 9, 1], [(0, 2), (2, 3), (3, 4), (4, 5)])],
)
def test_small_lines_are_decoded_together(
    sizes: list[int], places: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xspace, "_TOGETHER", 4)
    found = small_together([b"x" * size for size in sizes])
    assert [(some.start, some.stop) for some in found] == places
