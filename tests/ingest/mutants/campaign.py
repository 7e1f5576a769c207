"""Runs mutants by their numbers in a process of its own, which is watched: time, memory, and how it ends."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.ingest.mutants.kinds import KINDS
from tests.ingest.mutants.measured import Measured, memory
from tests.ingest.mutants.trial import Mutant, Trial, ingest_trials, mutant

MOST_BYTES = 2 << 30
MOST_S = 60.0  # of CPU
POLL_S = 0.2


@dataclass(frozen=True)
class Found:
    """What became of a mutant, or of the questions to a batch of them."""

    number: int
    kind: str
    faults: tuple[str, ...]
    seconds: float = 0  # of CPU
    peak_bytes: int = 0


@dataclass(frozen=True)
class Plan:
    """How mutants are run.

    Attributes:
        batch: mutants of one warehouse, which is asked when all are in it.
        relations: how many relations are asked of each batch.
        check_each: one in so many batches is checked.
        report_each: one in so many batches has pages drawn.
    """

    batch: int = 50
    relations: int = 6
    check_each: int = 4
    report_each: int = 8


def campaign(numbers: Sequence[int], plan: Plan) -> Iterator[Found]:
    """What becomes of mutants; a process that ends, hangs or swells costs the mutant that it was at."""
    left = list(numbers)
    while left:
        for found in _watched(left, plan):
            if isinstance(found, Found):
                yield found
            else:
                left = left[left.index(found) + 1 :] if found in left else []
                break
        else:
            return


def _watched(numbers: list[int], plan: Plan) -> Iterator[Found | int]:
    """Found ones; a number last where its process ended at it."""
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, numbers, plan))
    process.start()
    theirs.close()
    at, began, why = numbers[0], 0.0, ""
    try:
        while True:
            try:
                if ours.poll(POLL_S):
                    said = ours.recv()
                    if said is None:
                        return
                    if isinstance(said, Found):
                        yield said
                    else:
                        at, began = said, _cpu_s(process.pid)
                    continue
            except EOFError:
                process.join()
                code = process.exitcode or 0
                why = why or (
                    f"died of {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
                )
                yield Found(at, "process", (why,))
                yield at
                return
            if process.pid is not None and not why:
                if _resident(process.pid) > MOST_BYTES + (1 << 30):
                    why = "memory: more than 3 GiB"
                elif _cpu_s(process.pid) - began > 2 * MOST_S:
                    why = f"hangs: more than {2 * MOST_S:.0f} s"
                if why:
                    process.kill()
    finally:
        process.kill()
        process.join()


def _work(theirs: Connection, numbers: list[int], plan: Plan) -> None:
    """Run mutants: what the process does."""
    with TemporaryDirectory(prefix="mutants-") as name:
        for start in range(0, len(numbers), plan.batch):
            _batch(theirs, numbers[start : start + plan.batch], plan, Path(name))
    theirs.send(None)


def _batch(theirs: Connection, numbers: list[int], plan: Plan, place: Path) -> None:
    """Run the mutants of one warehouse, and ask it."""
    from tests.ingest.mutants import readers, stores

    root = place / "w"
    shutil.rmtree(root, ignore_errors=True)
    traces: list[Mutant] = []
    for number in numbers:
        theirs.send(number)
        draw = random.Random(f"mutant {number}")
        kind = stores.kind_of(draw)
        if kind in KINDS:
            traces.append(mutant(number, kind, draw))
            continue
        with Measured() as measured:
            faults = stores.faults(kind, place / "store", draw)
        theirs.send(found(number, kind, faults, measured))
    runs: dict[int, list[str]] = {}
    together = [each for each in traces if not each.source.options]
    for mutants in (together, *([each] for each in traces if each.source.options)):
        if not mutants:
            continue
        theirs.send(mutants[0].number)
        # Options are of all runs of a call, the good one's too.
        into = root if mutants is together else place / "with-options"
        for each, trial in zip(
            mutants, ingest_trials(mutants, place / "traces", into), strict=True
        ):
            runs[each.number] = trial.run_ids if mutants is together else []
            theirs.send(found(each.number, f"{each.kind}: {each.source.name}", trial.faults, trial))
    every = sorted({run_id for run_ids in runs.values() for run_id in run_ids})
    last, draw = numbers[-1], random.Random(f"batch {numbers[-1]}")
    if not every:
        return
    theirs.send(last)
    with Measured() as measured:
        faults = readers.query_faults(root, readers.chosen(draw, plan.relations))
    for relation in [fault.partition(":")[0] for fault in faults]:
        faults.append(f"{relation} is of {_numbers(runs, readers.culprits(root, relation, every))}")
    theirs.send(found(last, "query", faults, measured))
    if draw.randrange(plan.check_each) == 0:
        with Measured() as measured:
            faults = readers.check_faults(root)
        theirs.send(found(last, "check", faults, measured))
    if draw.randrange(plan.report_each) == 0:
        some = draw.sample(every, min(2, len(every)))
        with Measured() as measured:
            faults = readers.report_faults(root, place / "site", some)
        shutil.rmtree(place / "site", ignore_errors=True)
        about = [f"of {_numbers(runs, some)}"] if faults else []
        theirs.send(found(last, "report", faults + about, measured))


def _numbers(runs: dict[int, list[str]], wanted: list[str]) -> list[int]:
    return [number for number, run_ids in runs.items() if set(run_ids) & set(wanted)]


def found(number: int, kind: str, faults: list[str], cost: Measured | Trial) -> Found:
    """What became of a mutant; what it costs may be a fault too."""
    more = []
    if cost.seconds > MOST_S:
        more.append(f"took {cost.seconds:.0f} s of CPU")
    if cost.peak_bytes > MOST_BYTES:
        more.append(f"took {cost.peak_bytes >> 20} MiB of memory")
    return Found(number, kind, (*faults, *more), cost.seconds, cost.peak_bytes)


def _resident(pid: int) -> int:
    try:
        return memory(pid, "VmRSS")
    except OSError:
        return 0


def _cpu_s(pid: int | None) -> float:
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
