"""Prints what the mutants of each input give: `python -m tests.sweep [TEXT]`, of inputs named so."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.sweep.inputs import INPUTS
from tests.sweep.outcome import mutants_of
from tests.sweep.test_sweep import is_silent, run


def main(wanted: str) -> int:
    """Print a line for each input, and one for each silent mutant; 1 if there is one."""
    total: Counter[str] = Counter()
    for chosen in INPUTS:
        name = f"{chosen.reader}: {chosen.name}"
        if wanted not in name:
            continue
        with TemporaryDirectory() as folder:
            results = run(chosen, list(mutants_of(chosen)), Path(folder))
        counts = Counter(
            f"{each.outcome}, allowed"
            if each.outcome in ("wrong", "null") and not is_silent(each)
            else each.outcome
            for each in results
        )
        total += counts
        print(f"{name}: {len(results)} mutants: {_text(counts)}", flush=True)
        for each in filter(is_silent, results):
            print(f"  {each.mutant.label}: {', '.join(each.changed[:6])}", flush=True)
    print(f"all: {total.total()} mutants: {_text(total)}")
    return int(bool(total["wrong"] + total["null"]))


def _text(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())


if __name__ == "__main__":
    sys.exit(main(" ".join(sys.argv[1:])))
