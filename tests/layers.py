"""The two layers of the suite: few fixed examples in `make test`, a sample of the commit in `make verify`.

Environment: XLAHOUSE_SEED repeats the sample of another commit; ALL=1 takes everything.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest

SEED, ALL = "XLAHOUSE_SEED", "ALL"
TURNS = 4  # one in so many long tests runs for a commit
T = TypeVar("T")


@cache
def seed() -> str:
    """What the samples are drawn from: XLAHOUSE_SEED, else the commit, else a constant."""
    given = os.environ.get(SEED)
    if given:
        return given
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    here = Path(__file__).parent
    try:
        done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "no-commit"
    return done.stdout.strip()


def takes_all() -> bool:
    """Whether ALL asks for everything instead of a sample."""
    return os.environ.get(ALL, "") not in ("", "0")


def drawn(purpose: str) -> random.Random:
    """Random numbers of this seed, other ones for each purpose."""
    return random.Random(f"{seed()}: {purpose}")


def sampled(values: Sequence[T], count: int, purpose: str) -> list[T]:
    """At most `count` of the values, in their order; all of them with ALL=1."""
    if takes_all() or count >= len(values):
        return list(values)
    places = sorted(drawn(purpose).sample(range(len(values)), count))
    return [values[place] for place in places]


def has_its_turn(test: str) -> bool:
    """Whether a long test, or a file of them, runs with this seed; with ALL=1 each does."""
    return takes_all() or drawn(f"turn of {test}").randrange(TURNS) == 0


def first_few(values: Iterable[Any], few: int) -> list[Any]:
    """Parameters: the first `few` in `make test`, the rest in `make verify`.

    A tuple has a value for each of several names.
    """
    given = list(values)
    rest = [each if isinstance(each, tuple) else (each,) for each in given[few:]]
    return given[:few] + [pytest.param(*each, marks=pytest.mark.verify) for each in rest]


def seeds(few: int, many: int) -> list[Any]:
    """Parameters: the seeds 0 to `few` in `make test`, and `many` drawn ones in `make verify`."""
    numbers = [drawn("seeds").randrange(1 << 32) for _ in range(many)]
    return [*range(few), *(pytest.param(number, marks=pytest.mark.verify) for number in numbers)]


def layered(few: int, many: int, *values: Any, **named: Any) -> Callable[[Any], Any]:
    """Make a test of a property: `few` examples in `make test`, `many` in `make verify`.

    They are the same ones every time, so that no landing fails for what another commit broke, unless
    XLAHOUSE_SEED or ALL=1 asks for drawn ones.
    """

    def wrap(check: Any) -> Any:
        @pytest.mark.parametrize("examples", first_few([few, many], 1))
        def test(examples: int) -> None:
            found = hypothesis.given(*values, **named)(check)
            fixed = examples == few or not (os.environ.get(SEED) or takes_all())
            if not fixed:
                found = hypothesis.seed(seed())(found)
            hypothesis.settings(
                max_examples=examples, derandomize=fixed, database=None, deadline=None
            )(found)()

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return wrap
