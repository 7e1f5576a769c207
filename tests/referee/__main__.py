"""python -m tests.referee SEEDS: compare runs of seeds with their truth, such as 7 or 0-299."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.referee.asking import differences_of
from tests.referee.compare import lines, unknown
from tests.referee.draw import draw

TOGETHER = 20  # runs in a warehouse


def main(texts: list[str]) -> int:
    """Compare each seed; the number of runs that differ."""
    bad = count = 0
    departures: Counter[str] = Counter()
    began = time.monotonic()
    for text in texts:
        first, _, last = text.partition("-")
        given = range(int(first), int(last or first) + 1)
        for place in range(0, len(given), TOGETHER):
            truths = [draw(seed) for seed in given[place : place + TOGETHER]]
            with tempfile.TemporaryDirectory() as folder:
                found_of = differences_of(truths, Path(folder))
            for truth, found in zip(truths, found_of, strict=True):
                departures.update({each.departure for each in found} - {""})
                if unknown(found):
                    bad += 1
                    print("\n".join(lines(truth.seed, truth, unknown(found))), flush=True)
            count += len(truths)
            print(f"… {count} runs, up to seed {truths[-1].seed}", file=sys.stderr, flush=True)
    print(f"{count} runs, {bad} with differences, {time.monotonic() - began:.0f} s")
    print("known departures: " + ", ".join(f"{k} {v}" for k, v in sorted(departures.items())))
    return bad


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
