"""Programs from the names of a TPU plane's ops, which are HLO text: for traces without HLO."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TypeAlias

from xlahouse.ingest.events.codes_of_names import PROGRAM_UNKNOWN
from xlahouse.ingest.events.codes_of_programs import NO_HLO
from xlahouse.ingest.events.frames import PlaneEvents, distinct_rows
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.hlo.module_text import program_of_instructions
from xlahouse.ingest.hlo.program import Program

# Program id, instruction, and of its framework op the path and the source line.
InstructionTexts: TypeAlias = list[tuple[int | None, str, str | None, str | None]]


@dataclass
class OpTexts:
    """Instruction texts by program id; under None the texts whose program the trace does not name."""

    # of each instruction its text with metadata
    by_program: dict[int | None, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, texts: InstructionTexts) -> None:
        """Add the texts of a plane."""
        for program_id, text, framework_op, place in texts:
            of_program = self.by_program[program_id]
            if text not in of_program:
                of_program[text] = with_metadata(text, framework_op, place)

    def programs(
        self, modules: dict[int, str], known: dict[int, Program], source: str
    ) -> tuple[list[Program], list[Issue]]:
        """Programs of launches without HLO, built from the names of their ops.

        Args:
            modules: name of each program that was launched.
            known: programs whose HLO the trace holds.
            source: the file, for issues.
        """
        texts = dict(self.by_program)
        unnamed = texts.pop(None, {})
        if len(modules) == 1:  # then they can belong to no other program
            texts.setdefault(next(iter(modules)), {}).update(unnamed)
            unnamed = {}
        found: list[Program] = []
        issues = issues_found(source, (PROGRAM_UNKNOWN, len(unnamed)))
        for program_id, instructions in texts.items():
            if program_id is None or program_id in known:
                continue
            name = modules.get(program_id, f"program {program_id}")
            read = program_of_instructions(instructions.values(), program_id, name, source)
            found.append(read.program)
            issues += read.issues(source)
        return found, issues


def with_metadata(instruction: str, framework_op: str | None, place: str | None) -> str:
    """The instruction with its metadata, as in a dump: a trace keeps the two apart.

    Args:
        instruction: its text.
        framework_op: its path in the model, as `tf_op` has it.
        place: file and line, joined by a colon.
    """
    if not (framework_op or place) or "metadata={" in instruction:
        return instruction
    path, _, line = (place or "").rpartition(":")
    parts = []
    if framework_op:
        parts.append(f'op_name="{_escaped(framework_op.removesuffix(":"))}"')
    if path and line.isdigit():
        parts.append(f'source_file="{_escaped(path)}" source_line={line}')
    return f"{instruction}, metadata={{{' '.join(parts)}}}" if parts else instruction


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def launched_modules(planes: list[PlaneEvents]) -> dict[int, str]:
    """Name of each program that launches name by id."""
    return {
        number: module
        for plane in planes
        if not plane.launches.is_empty()
        for number, module in distinct_rows(plane.launches[["program_id", "module"]])
        if number is not None and module is not None
    }


def missing_hlo(count: int, source: str) -> list[Issue]:
    """The finding that so many programs have no HLO; at most the names of their ops are known."""
    return issues_found(source, (NO_HLO, count))
