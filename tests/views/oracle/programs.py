"""Draws programs: collectives of every kind with their groups, and what runs between them."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.views.oracle.devices import Devices
from tests.views.oracle.drawn import Collective, Drawn, Program, partition

KINDS = (
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute",
    "collective-permute", "collective-broadcast", "ragged-all-to-all", "send-recv",
)  # fmt: skip
PAIRED = ("collective-permute", "send-recv")
SIZES = (0, 1, 3, 64, 65, 100, 4096, 10**6, 2**33)


def draw_programs(run: Drawn, devices: Devices) -> list[Program]:
    """One to three programs, whose instructions may have the same names."""
    ids = run.rng.sample((7, 8, 9, 2**63 + 5), run.rng.randint(1, 3))
    return [_program(run, devices, program_id) for program_id in ids]


def _program(run: Drawn, devices: Devices, program_id: int) -> Program:
    module = f"jit_{program_id % 2}"
    transfers = [
        _collective(run, devices, program_id, f"{run.rng.choice('xyz')}.{number}")
        for number in range(run.rng.randint(0, 4))
    ]
    items: list[tuple[str, Any]] = []
    for transfer in transfers:
        items += [
            (kind, transfer) for kind in (("start", "done") if transfer.is_async else ("sync",))
        ]
        if run.chance(0.2) and not transfer.is_async:
            items.append(("sync", transfer))
    for place, item in enumerate(list(items)):
        if item[0] == "done" and run.chance(0.5):  # others start while it is in flight
            items.remove(item)
            items.insert(run.rng.randint(place, len(items)), item)
    for _ in range(run.rng.randint(0, 6)):
        kind = run.rng.choice(("compute", "compute", "compute", "copy", "host_transfer", "wait"))
        op = f"{kind}.{run.rng.randint(0, 2)}"
        items.insert(run.rng.randint(0, len(items)), (kind, op))
    return Program(program_id, module, items)


def _collective(run: Drawn, devices: Devices, program_id: int, op: str) -> Collective:
    kind = run.rng.choice(KINDS)
    payload = None if run.chance(0.08) else run.rng.choice(SIZES)
    is_grouped = not run.chance(0.08)
    groups: dict[int, dict[int, tuple[int, int]]] = {}
    senders: set[int] = set()
    for world, members in devices.worlds.items():
        pairs = _pairs(run, members) if kind in PAIRED else []
        if kind == "send-recv":
            pairs = [(source, target) for source, target in pairs if source != target][:1]
        parts = components(pairs) if kind in PAIRED else list(partition(run.rng, members))
        senders |= {source for source, target in pairs if source != target}
        groups[world] = {m: (i, len(part)) for i, part in enumerate(parts) for m in part}
        if not is_grouped:
            groups[world] = {}
            continue
        key = {"world": world, "program_id": program_id, "op": op}
        for source, target in pairs:
            run.add("permute_pairs", **key, source_device_id=source, target_device_id=target)
        outsider = kind not in PAIRED and run.chance(0.05)  # a member of no known number
        for index, part in enumerate(parts):
            whole: list[int | None] = [*part, None] if outsider else [*part]
            groups[world] |= {member: (index, len(whole)) for member in part}
            for position, member in enumerate(whole):
                number = 40 if member is None else _logical(devices, member)
                run.add("replica_groups", **key, group_index=index, position=position,
                        logical_id=number, device_id=member)  # fmt: skip
    known = frozenset(senders) if kind in PAIRED else None
    is_async = run.chance(0.4)
    for world in groups if is_async else ():
        key = {"world": world, "program_id": program_id}
        run.add(
            "instructions",
            **key,
            op=op,
            opcode=f"{kind}-start",
            operands="p",
            framework_op=f"m/{op[0]}",
            shape="bf16[4]{0}",
            **draw_rings(f"{run.run_id} {program_id} {op}"),
        )
        run.add(
            "instructions",
            **key,
            op=f"{op}-done",
            opcode=f"{kind}-done",
            operands=op,
            source_file="m.py",
            source_line=len(op),
        )
    return Collective(op, kind, is_async, payload, groups, known, is_grouped)


def draw_rings(name: str) -> dict[str, Any]:
    """How a compiler says that four devices transfer, whatever the group; drawn from a name of the op."""
    rng = Random(name)
    if rng.random() < 0.3:
        return {}
    colors, phases, rings, strategy = rng.choice(
        [
            (2, 1, "4,4", "UniDirection1DRingStrategy"),
            (1, 1, "4", "UniDirection1DRingStrategy"),
            (4, 2, "2 2,2 2,2 2,2 2", "UniDirectionNDRingStrategy"),
            (1, 1, "4", "StrategyRing"),
        ]
    )
    return {
        "collective_emitter": "PincerShort" if rng.random() < 0.1 else "Pincer",
        "collective_strategy": strategy,
        "collective_colors": colors,
        "collective_phases": phases,
        "collective_rings": rings,
    }


def _logical(devices: Devices, device: int) -> int:
    return next(row["logical_id"] for row in devices.rows if row["device_id"] == device)


def _pairs(run: Drawn, members: list[int]) -> list[tuple[int, int]]:
    """Each device at most once a source and at most once a target, itself perhaps; not all are in one."""
    count = run.rng.randint(1, len(members))
    sources, targets = (run.rng.sample(members, count) for _ in range(2))
    return list(zip(sources, targets, strict=True))


def components(pairs: list[tuple[int, int]]) -> list[list[int]]:
    """Connected components, each ascending, by their smallest member."""
    parts: list[set[int]] = []
    for pair in pairs:
        joined = set(pair)
        for part in [part for part in parts if part & joined]:
            joined |= part
            parts.remove(part)
        parts.append(joined)
    return sorted(sorted(part) for part in parts)
