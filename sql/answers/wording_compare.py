"""A comparison of two runs as text for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from xlahouse.capture.words import NO_OPS
from xlahouse.sql.answers.compare import LoadChange, MetricChange, RunComparison
from xlahouse.sql.answers.differences import MOST_OPS, OpChange, StepDifference
from xlahouse.sql.drawing import draw, elision, terminal_width, visible
from xlahouse.sql.types import Value

COLUMNS = ["change_ms", "op", "where", "shape", "base_ms", "other_ms", "sure"]
NAME_WIDTH = 40


def print_comparison(found: RunComparison, steps: Sequence[StepDifference], file: IO[str]) -> None:
    """Write the metrics, then a sentence for each phase, and the first ops of the first phase."""
    draw(list(MetricChange._fields), [list(row) for row in found.rows], file)
    for place, step in enumerate(steps):
        file.write(f"\n{visible(step.sentence)}\n")
        changed = [op for op in step.ops if op.total_ps]
        if place == 0 and changed:
            rows = [_row(op) for op in changed[:MOST_OPS]]
            hidden = draw(COLUMNS, rows, file, terminal_width(file))
            if hidden:
                file.write(f"{elision(hidden, '--format json has all')}\n")
            if len(changed) > MOST_OPS:
                file.write(f"{len(changed) - MOST_OPS:,} more ops: --format json\n")


def print_loads(loads: Sequence[LoadChange], file: IO[str]) -> None:
    """Write what a step of each phase moves and holds, where one of the runs was compiled."""
    draw(list(LoadChange._fields), [list(load) for load in loads], file)


def _row(op: OpChange) -> list[Value]:
    name = op.kernel or op.opcode or "unnamed"
    name = name if op.part == "op" else NO_OPS.get(op.part, op.part)
    sure = "yes" if op.rank is not None else "one step" if op.margin_ps is None else "no"
    return [
        _ms(op.total_ps), _short(name), _short(op.scope or ""), _short(op.shape or ""),
        _ms(op.step_ps), _ms(op.other_step_ps), sure,
    ]  # fmt: skip


def _ms(time_ps: float | None) -> float | None:
    return None if time_ps is None else time_ps / 1e9


def _short(text: str) -> str:
    """The end of a long name says most: scopes begin alike."""
    return text if len(text) <= NAME_WIDTH else f"…{text[1 - NAME_WIDTH :]}"


def as_json(
    base: str,
    other: str,
    found: RunComparison,
    loads: Sequence[LoadChange],
    steps: Sequence[StepDifference],
) -> str:
    """Everything: metrics, loads of a step, and each phase's ops, kernels, layers and collectives."""
    import msgspec

    whole = {
        "run_id": base,
        "other_run_id": other,
        "metrics": [row._asdict() for row in found.rows],
        "differing": found.differing,
        "differing_count": found.differing_count,
        "loads": [row._asdict() for row in loads],
        "steps": list(steps),
    }
    return msgspec.json.format(msgspec.json.encode(whole)).decode()
