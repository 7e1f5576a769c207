"""The compiled programs of a run: who runs each, with what recipe, under what fingerprint."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from tests.synth.describe import DECODE, PREFILL, Run
from tests.synth.mesh import Groups, Mesh, Written, coordinate, groups_along, write_groups
from tests.synth.segments import Segment, handover_segments, program_segments

GOLDEN = 0x9E3779B97F4A7C15
TOP_BIT = 1 << 63


@dataclass(frozen=True)
class Program:
    """One compiled program; `positions` are those of the run's mesh, in the program's own order.

    `mesh` is the program's: of a stage, the run's without pp; of a handover, pp = 2.
    `hop` is the stage that a handover leaves; `stage` the one that a stage's program computes.
    """

    name: str
    id: int
    phase: str | None
    positions: tuple[int, ...]
    mesh: Mesh
    segments: tuple[Segment, ...]
    replicas: int = 1
    stage: int | None = None
    hop: int | None = None

    @property
    def label(self) -> str:
        """The name of its module events."""
        return f"{self.name}({self.id})"

    def local_groups(self, segment: Segment) -> Groups:
        """Groups of a collective, as indices into `positions`."""
        return groups_along(self.mesh, segment.transfer.axis)

    def groups(self, segment: Segment) -> Groups:
        """Groups of a collective, as mesh positions; a handover's pairs are a group each."""
        return tuple(
            tuple(self.positions[k] for k in group) for group in self.local_groups(segment)
        )


def fingerprint(index: int, high: bool) -> int:
    """A program id; `high` ones exceed a signed 64-bit integer, as real ones may."""
    value = GOLDEN * (index + 1) % TOP_BIT
    return value | TOP_BIT if high else value


def written_groups(run: Run, program: Program, segment: Segment, ordinal: int) -> Written:
    """How a collective's groups are written: all-to-alls and permutes hold partitions, or replicas
    where the program has only these."""
    notation = run.notations[ordinal % len(run.notations)]
    ids = run.ids if program.stage is None else "flattened"
    if segment.transfer.kind in ("all-to-all", "collective-permute"):
        ids = "replicas" if program.replicas == len(program.positions) else "partitions"
    return write_groups(program.mesh, segment.transfer.axis, notation, ids, program.replicas)


def permute_pairs(groups: Groups) -> tuple[tuple[int, int], ...]:
    """Source and target of a shift to the next member; the last member sends nothing."""
    return tuple(pair for group in groups for pair in pairwise(group))


def stage_positions(run: Run, stage: int) -> tuple[int, ...]:
    """Mesh positions of a pipeline stage."""
    return tuple(p for p in range(len(run.devices)) if coordinate(run.mesh, p, "pp") == stage)


def _stage_programs(run: Run, phase: str, first: int) -> list[Program]:
    rest = tuple(entry for entry in run.mesh if entry[0] != "pp")
    programs = []
    for stage in range(run.size("pp")):
        programs.append(
            Program(
                "jit_stage",
                fingerprint(first + 2 * stage, phase == PREFILL),
                phase,
                stage_positions(run, stage),
                rest or (("one", 1),),
                program_segments(run, phase, stage),
                stage=stage,
            )
        )
        if stage + 1 < run.size("pp"):
            programs.append(
                Program(
                    "jit_handover",
                    fingerprint(first + 2 * stage + 1, phase == PREFILL),
                    phase,
                    stage_positions(run, stage) + stage_positions(run, stage + 1),
                    (("pp", 2), *rest),
                    handover_segments(run, phase),
                    hop=stage,
                )
            )
    return programs


@lru_cache(maxsize=64)
def programs(run: Run) -> tuple[Program, ...]:
    """Every program of prefill and decode."""
    found = []
    for phase in (PREFILL, DECODE):
        if run.staged:
            found += _stage_programs(run, phase, len(found))
            continue
        number, everyone = fingerprint(len(found), phase == PREFILL), range(len(run.devices))
        recipe = program_segments(run, phase)
        found.append(
            Program("jit_step", number, phase, tuple(everyone), run.mesh, recipe, run.replicas)
        )
    return tuple(found)


def extra_program(run: Run) -> Program:
    """The small program of one device that runs before the first request."""
    segments = (Segment("compute", "iota_fusion", 307_031),)
    return Program(
        "jit_iota", fingerprint(97, False), None, (run.positions[0],), (("one", 1),), segments
    )
