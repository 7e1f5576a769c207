"""Whether a run's clocks can be compared by what its files hold: METRICS.md, Clocks, the slow way."""

from __future__ import annotations

from dataclasses import dataclass

from tests.referee.answers import Answers, Transfer
from tests.referee.spans import median, percentile

ONE, KNOWN, AMBIGUOUS, UNCONNECTED = "one", "known", "ambiguous", "unconnected"


@dataclass(frozen=True)
class Fit:
    """A shift that was tried."""

    shift: int
    paired: int
    offset: float
    spread: float


def _meets(answers: Answers, transfer: Transfer) -> bool:
    instr = transfer.instr
    return (
        instr.what == "sync"
        and instr.kind != "collective-permute"
        and answers.crosses(transfer.group)
    )


def _sequence(answers: Answers, host: int, devices: tuple[int, ...]) -> list[int]:
    """Launch instances that a host's devices of a stage saw, in its order, of programs that could tell
    the clocks. Stages run beside each other: theirs have no order that both hosts share."""
    truth = answers.truth
    useful = {t.launch.program.id for t in answers.transfers if _meets(answers, t)}
    first: dict[int, int] = {}
    for launch in truth.launches:
        its = launch.program.devices == devices
        if its and truth.host(launch.device) == host and launch.program.id in useful:
            first[launch.number] = min(first.get(launch.number, launch.start), launch.start)
    return sorted(first, key=lambda n: first[n])


def _ends(answers: Answers, host: int) -> dict[tuple, int]:
    """(launch instance, op, group) -> when it ended, on the host's clock."""
    read, found = answers.truth.clocks[host].read, {}
    for t in answers.transfers:
        if answers.truth.host(t.launch.device) == host and _meets(answers, t):
            found[t.instance] = read(t.end)
    return found


def _fit(points: list[tuple[int, int]], launches: int) -> tuple[float, float]:
    """(offset at zero, spread) of (time, difference), by thirds. Ends of one launch are of one time, so that
    it takes three launches to tell a drift from what differs between launches."""
    points = sorted(points)
    third = max(1, len(points) // 3)
    early, late = points[:third], points[-third:]
    between = median([t for t, _ in late]) - median([t for t, _ in early])
    slope = 0.0
    if launches >= 3 and between:
        slope = (median([d for _, d in late]) - median([d for _, d in early])) / between
    rest = [d - slope * t for t, d in points]
    offset = median(rest)
    return offset, percentile(rest, 0.95) - percentile(rest, 0.05)


def _shifts(answers: Answers, devices: tuple[int, ...]) -> tuple[list[Fit], int, int]:
    ours, theirs = (_sequence(answers, host, devices) for host in (0, 1))
    program = {x.number: x.program.id for x in answers.truth.launches}
    here, there = _ends(answers, 0), _ends(answers, 1)
    fits = []
    for shift in range(-len(theirs) + 1, len(ours)):
        pairs = [
            (ours[k + shift], theirs[k])
            for k in range(len(theirs))
            if 0 <= k + shift < len(ours) and program[ours[k + shift]] == program[theirs[k]]
        ]
        if not pairs or 2 * len(pairs) < min(len(ours), len(theirs)):
            continue
        points = []
        for a, b in pairs:
            for number, op, group in [key for key in there if key[0] == b]:
                if (a, op, group) in here:
                    when = here[a, op, group]
                    points.append((when, there[number, op, group] - when))
        if points:
            offset, spread = _fit(points, len(pairs))
            fits.append(Fit(shift, len(pairs), offset, spread))
    return fits, len(ours), len(theirs)


def judge(answers: Answers) -> tuple[str, str]:
    """(state, why)."""
    truth = answers.truth
    if truth.hosts == 1:
        return ONE, ""
    shared = [
        members
        for members in answers.instances.values()
        if _meets(answers, members[0]) and answers.crosses(t.launch.device for t in members)
    ]
    if not shared:
        return UNCONNECTED, "no synchronous instance of both hosts"
    if truth.known_steps:
        return KNOWN, "markers on all hosts"
    stages = sorted({t.launch.program.devices for members in shared for t in members})
    found = [_of_stage(answers, shared, devices) for devices in stages]
    return next((each for each in found if each[0] == KNOWN), found[0])


def _of_stage(
    answers: Answers, shared: list[list[Transfer]], devices: tuple[int, ...]
) -> tuple[str, str]:
    """(state, why) by the launches of a stage; without a pipeline there is one."""
    tried, ours, theirs = _shifts(answers, devices)
    lasted = [
        min(t.end - t.start for t in members)
        for members in shared
        if members[0].launch.program.devices == devices
    ]
    limit = median(lasted) / 10
    fitting = [fit for fit in tried if fit.spread <= limit]
    why = f"{ours} and {theirs} launches, limit {limit:.0f}, " + "; ".join(
        f"shift {f.shift}: {f.paired} pairs, offset {f.offset:.0f}, spread {f.spread:.0f}"
        for f in tried
    )
    if len(fitting) == 1:
        return KNOWN, why
    if not fitting or ours != theirs:
        return AMBIGUOUS, why
    whole = next((f for f in fitting if f.shift == 0 and f.paired == ours), None)
    others = [abs(f.offset) for f in fitting if f is not whole]
    near = whole and abs(whole.offset) + answers.truth.period / 10 < min(others)
    return (KNOWN if near else AMBIGUOUS), why
