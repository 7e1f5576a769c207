"""However many step markers a trace says are open at once, each launch gets an answer, and soon."""

from __future__ import annotations

import polars as pl
import pytest

from xlahouse.ingest.nesting.open_markers import MOST_OPEN, open_markers


def markers(ends: list[int]) -> pl.DataFrame:
    """Markers of steps 0, 1, …, each of which begins 1 ps after the one before."""
    places = range(len(ends))
    return pl.DataFrame(
        {
            "marker": places,
            "host": "h",
            "thread": "t",
            "start_ps": places,
            "duration_ps": [end - place for place, end in zip(places, ends, strict=True)],
            "phase": "decode",
            "request": 1,
            "step": places,
        }
    )


def found(ends: list[int], when: int) -> tuple[int | None, str | None, bool]:
    """(step, phase and whether markers are undecided) of a launch."""
    launches = pl.DataFrame({"host": ["h"], "enqueue_thread": ["t"], "when": [when]})
    return open_markers(launches, markers(ends)).select("step", "phase", "undecided").row(0)


@pytest.mark.parametrize("depth", [1, 2, MOST_OPEN])
def test_the_innermost_of_nested_markers_decides(depth: int) -> None:
    ends = [10_000 - place for place in range(depth)]
    assert found(ends, depth) == (depth - 1, "decode", False)
    assert found(ends, ends[-1]) == (
        (depth - 2, "decode", False) if depth > 1 else (None, None, False)
    )


def test_markers_that_do_not_nest_agree_on_their_phase_alone() -> None:
    assert found([50, 60], 10) == (None, "decode", True)
    assert found([70, 50, 60], 10) == (
        None,
        "decode",
        True,
    )  # the first holds both, and does not count
    assert found([70, 50, 60], 55) == (2, "decode", False)


def test_more_than_any_program_opens_decide_nothing() -> None:
    ends = [100_000 - place for place in range(5_000)]
    assert found(ends, 6_000) == (None, None, True)
    assert found(ends, 100_000 - 10) == (9, "decode", False)
