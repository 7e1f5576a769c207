"""Many checks in one test: every one runs, and a failure names each that failed."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping

import pytest

SHOWN = 3  # failures that are printed in full


def check_each(nouns: str, checks: Mapping[str, Callable[[], object]]) -> None:
    """Run all checks; fail with the names of those that do not hold, and the first ones' reasons."""
    wrong = {}
    for name, check in checks.items():
        try:
            check()
        except AssertionError as error:
            wrong[name] = str(error) or traceback.format_exc()
        except Exception:
            wrong[name] = traceback.format_exc()
    if wrong:
        lines = [f"{len(wrong)} of {len(checks)} {nouns}: {', '.join(wrong)}"]
        lines += [f"{name}: {wrong[name]}" for name in list(wrong)[:SHOWN]]
        pytest.fail("\n".join(lines), pytrace=False)
