"""Why a step of one run takes longer than a step of another: by op, kernel, layer and collective."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from xlahouse.sql.answers.source import Source
from xlahouse.sql.answers.words import duration, percent

MOST_OPS = 10  # rows for reading
PHASES = ("decode", "step", "mixed", "prefill")
# The first prefill of a run has no time before it, and TTFT counts none: by that time, runs would differ in
# what no request waits for.
SQL = """
select
    phase, part, kernel, scope, opcode, shape, category, op, other_op,
    executions_per_step, other_executions_per_step, step_ps, other_step_ps,
    count_ps, rate_ps, new_ps, gone_ps, total_ps, margin_ps, rank
from op_diff_v1
where run_id = $base and other_run_id = $other and not (phase = 'prefill' and part = 'between')
order by phase, abs(total_ps) desc nulls last, part, kernel, scope, opcode, shape
"""
# The names of layers in scopes, as ingest reads them.
_LAYER = re.compile(r"(?:^|[./_])(?:layers?|blocks?|h)[._/\[]([0-9]{1,9})(?![0-9])")
_HALF = re.compile(r"-(start|done|update)$")


@dataclass(frozen=True)
class OpChange:
    """An op of two runs' steps; idle and between are the time without any op."""

    part: str  # op, idle or between
    kernel: str | None  # as in op_diff
    scope: str | None  # as in op_diff
    opcode: str | None  # as in op_diff
    shape: str | None  # as in op_diff
    category: str | None  # as in op_diff
    op: str | None  # one of its ops in the base
    other_op: str | None  # one of its ops in the other run
    executions_per_step: float | None  # of the base
    other_executions_per_step: float | None  # of the other run
    step_ps: float | None  # its time of the base's mean step
    other_step_ps: float | None  # the same of the other run
    count_ps: float | None  # change because it runs more or less often
    rate_ps: float | None  # change because an execution takes longer or shorter
    new_ps: float | None  # change because the base lacks it
    gone_ps: float | None  # change because the other run lacks it
    total_ps: float | None  # the change
    margin_ps: float | None  # within it, draws of the steps differ by themselves
    rank: int | None  # by size; None within the margin, or where it is not known


@dataclass(frozen=True)
class GroupChange:
    """The ops of one kernel, layer or collective, with idle and between beside them."""

    name: str  # of the kernel, layer or collective; idle or between
    step_ps: float  # its time of the base's mean step
    other_step_ps: float  # the same of the other run
    total_ps: float  # the change


@dataclass(frozen=True)
class StepDifference:
    """The mean steps of a phase, taken apart; ops, and the groups of each kind, add up to `total_ps`."""

    phase: str  # of the steps
    # Mean period of the base's steps, or its prefills from first op to last; None where a part is not known
    step_ps: float | None
    other_step_ps: float | None  # the same of the other run
    total_ps: float | None  # the change; None where a part is not known
    sentence: str  # the change in words
    ops: tuple[OpChange, ...]  # the greatest change first
    kernels: tuple[GroupChange, ...]  # the greatest change first
    layers: tuple[GroupChange, ...]  # the greatest change first
    collectives: tuple[GroupChange, ...]  # the greatest change first


def step_differences(source: Source, base: str, other: str) -> tuple[StepDifference, ...]:
    """For each phase that both runs have, decode first.

    Args:
        source: a warehouse.
        base: id of a run.
        other: id of the run to compare with it.
    """
    phases: dict[str, list[OpChange]] = defaultdict(list)
    for row in source.query(SQL, {"base": base, "other": other}).dicts():
        phase = row.pop("phase")
        if phase in PHASES:
            phases[phase].append(OpChange(**row))
    return tuple(_difference(phase, phases[phase]) for phase in PHASES if phase in phases)


def _difference(phase: str, ops: list[OpChange]) -> StepDifference:
    step, other = (_sum(getattr(op, name) for op in ops) for name in ("step_ps", "other_step_ps"))
    total = None if step is None or other is None else other - step
    return StepDifference(
        phase,
        step,
        other,
        total,
        _sentence(phase, step, total, ops),
        tuple(ops),
        _grouped(ops, _kernel),
        _grouped(ops, _layer),
        _grouped(ops, _collective),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    found = 0.0
    for value in values:
        if value is None:
            return None
        found += value
    return found


def _grouped(ops: list[OpChange], name_of: Callable[[OpChange], str]) -> tuple[GroupChange, ...]:
    """Sums by name, the greatest change first; none where a time is not known."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for op in ops:
        if op.step_ps is None or op.other_step_ps is None:
            return ()
        name = name_of(op) if op.part == "op" else op.part
        sums[name][0] += op.step_ps
        sums[name][1] += op.other_step_ps
    found = [GroupChange(name, one, two, two - one) for name, (one, two) in sums.items()]
    return tuple(sorted(found, key=lambda group: (-abs(group.total_ps), group.name)))


def _kernel(op: OpChange) -> str:
    return op.kernel or op.opcode or "unnamed"


def _layer(op: OpChange) -> str:
    found = _LAYER.search(op.scope or "")
    return f"layer {int(found[1])}" if found else "no layer"


def _collective(op: OpChange) -> str:
    if op.category != "collective":
        return "no collective"
    return _HALF.sub("", op.opcode) if op.opcode else _kernel(op)


def _sentence(phase: str, step: float | None, total: float | None, ops: list[OpChange]) -> str:
    kind = "step" if phase == "step" else f"{phase} step"
    if step is None or total is None:
        return (
            f"The times of a {kind} are not known in full, so their difference is not taken apart."
        )
    if total == 0:
        return f"A {kind} takes {duration(step)} in both runs."
    share = f" ({_signed_share(total / step)})" if step else ""
    said = f"A {kind} takes {duration(abs(total))} {'more' if total > 0 else 'less'}{share}"
    changed = [op for op in ops if op.total_ps]
    if all(op.margin_ps is None for op in changed):
        change = _change_of(_largest_kernel(changed))
        return f"{said}; the largest change is {change}. The spread over steps is not known: a run has one."
    sure = [op for op in changed if op.rank is not None]
    if not sure:
        return f"{said}; no single op differs by more than the spread over steps."
    first = _largest_kernel(sure)
    if not first:
        return f"{said}; no kernel differs in all by more than the spread over steps."
    return f"{said}; the largest change is {_change_of(first)}."


def _largest_kernel(sure: list[OpChange]) -> list[OpChange]:
    """The changed ops of the kernel that changes most in all; none where the spread is larger.

    An op of another shape is new where the one that it replaces is gone: neither alone is a change.
    """
    kernels: dict[tuple[str, str], list[OpChange]] = defaultdict(list)
    for op in sure:
        kernels[op.part, _kernel(op)].append(op)
    certain = [
        ops for ops in kernels.values() if abs(_net(ops)) > sum(op.margin_ps or 0 for op in ops)
    ]
    return max(certain, key=lambda ops: abs(_net(ops)), default=[])


def _net(ops: list[OpChange]) -> float:
    return sum(op.total_ps or 0 for op in ops)


def _change_of(ops: list[OpChange]) -> str:
    """A kernel's change: of one op with its place, of several with the place of one that makes half of it."""
    first, net = ops[0], _net(ops)
    name = _kernel(first) if first.part == "op" else _PARTS[first.part]
    where = f" in {first.scope}" if first.scope else ""
    if len(ops) == 1:
        return f"{name}{where}: {_signed(net)}"
    said = f"{name}: {_signed(net)} in {len(ops):,} ops"
    if where and 0.5 <= (first.total_ps or 0) / net <= 1:
        said += f", {_signed(first.total_ps or 0)} of it{where}"
    return said


def _signed_share(share: float) -> str:
    shown = percent(abs(share))  # a number, or `under 1 %`
    return f"{'+' if share > 0 else '-'}{shown}" if shown[0].isdigit() else shown


def _signed(time_ps: float) -> str:
    return f"{'+' if time_ps > 0 else '-'}{duration(abs(time_ps))}"


_PARTS = {"idle": "idle time within the step", "between": "the time between steps"}
