"""python -m tests.referee SEEDS: compare runs of seeds with their truth, such as 7 or 0-299."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.referee.compare import differences, lines, unknown
from tests.referee.draw import draw


def main(texts: list[str]) -> int:
    """Compare each seed; the number of runs that differ."""
    bad = count = 0
    departures: Counter[str] = Counter()
    began = time.monotonic()
    for text in texts:
        first, _, last = text.partition("-")
        for seed in range(int(first), int(last or first) + 1):
            truth = draw(seed)
            with tempfile.TemporaryDirectory() as folder:
                found = differences(truth, Path(folder))
            count += 1
            if count % 20 == 0:
                print(f"… {count} runs, up to seed {seed}", file=sys.stderr, flush=True)
            departures.update({each.departure for each in found} - {""})
            found = unknown(found)
            if found:
                bad += 1
                print("\n".join(lines(seed, truth, found)), flush=True)
    print(f"{count} runs, {bad} with differences, {time.monotonic() - began:.0f} s")
    print("known departures: " + ", ".join(f"{k} {v}" for k, v in sorted(departures.items())))
    return bad


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
