"""Runs mutants: `python -m tests.ingest.mutants LOG FIRST END`, or `python -m tests.ingest.mutants NUMBER`.

LOG gets a line of JSON for each mutant and each question; a run that is started again goes on after it.
With a number alone it prints what that mutant is and what comes of it, and leaves its files in ./mutant.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tests.ingest.mutants import stores
from tests.ingest.mutants.campaign import Plan, campaign
from tests.ingest.mutants.kinds import KINDS
from tests.ingest.mutants.trial import came_of, ingest_trials, mutant


def main(words: list[str]) -> int:
    """1 if there is a fault."""
    if len(words) == 1:
        return one(int(words[0]))
    log, first, end = Path(words[0]), int(words[1]), int(words[2])
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    first = max([first, *(line["number"] + 1 for line in lines)])
    with log.open("a", buffering=1) as file:
        for found in campaign(range(first, end), Plan()):
            file.write(json.dumps(asdict(found)) + "\n")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    kinds = Counter(line["kind"].partition(":")[0] for line in lines)
    print(", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    wrong = [line for line in lines if line["faults"]]
    for line in wrong:
        print(line["number"], line["kind"], *line["faults"], sep="\n  ")
    print(f"{len(wrong)} with a fault")
    slowest = max(lines, key=lambda line: line["seconds"])
    print(f"slowest: {slowest['seconds']:.1f} s of CPU ({slowest['number']}, {slowest['kind']})")
    largest = max(lines, key=lambda line: line["peak_bytes"])
    print(
        f"most memory: {largest['peak_bytes'] >> 20} MiB ({largest['number']}, {largest['kind']})"
    )
    return int(bool(wrong))


def one(number: int) -> int:
    """Run one mutant in this process."""
    draw = random.Random(f"mutant {number}")
    kind, place, root = stores.kind_of(draw), Path("mutant/files"), Path("mutant/w")
    if kind not in KINDS:
        faults = stores.faults(kind, place, draw)
        print(kind, *faults, sep="\n")
        return int(bool(faults))
    changed = mutant(number, kind, draw)
    (trial,) = ingest_trials([changed], place, root)
    print(f"{kind}: {changed.source.name}", changed.folder, sep="\n")
    print(
        *(f"{run_id}: {came_of(root, run_id)}" for run_id in trial.run_ids), *trial.faults, sep="\n"
    )
    return int(bool(trial.faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
