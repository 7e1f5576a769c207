"""Programs of several files with one id: one program if the code is the same, else several.

A TPU's ids are fingerprints of the code; other compilers number programs by process, so that two
programs may have one id. Two processes may run the same code on their own devices, with their own groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from xlahouse.ingest.hlo.file_events import FileEvents
from xlahouse.ingest.hlo.messages import new_instruction
from xlahouse.ingest.hlo.module_text import program_of_instructions
from xlahouse.ingest.hlo.program import Program


def is_same_code(one: Program, other: Program) -> bool:
    """Whether two programs hold the same instructions, on whatever devices."""
    if one is other or one.digest == other.digest != b"" or one.proto == other.proto:
        return True
    return _instructions(one) == _instructions(other)


def _instructions(program: Program) -> set[bytes]:
    """Name, opcode, shape and groups of each instruction, serialized."""
    found = set()
    for _, instruction in program.instructions():
        bare = new_instruction(
            name=instruction.name,
            opcode=instruction.opcode,
            shape=instruction.shape,
            channel_id=instruction.channel_id,
            replica_groups=instruction.replica_groups,
            collective_device_list=instruction.collective_device_list,
            source_target_pairs=instruction.source_target_pairs,
        )
        found.add(bare.SerializeToString(deterministic=True))
    return found


def whole_programs(file: FileEvents) -> dict[int, Program]:
    """The programs whose HLO a file has, by id."""
    return {number: program for number, program in file.programs.items() if not program.loose}


def clash(known: dict[int, Program], other: dict[int, Program]) -> bool:
    """Whether two mappings have different programs under one id."""
    shared = known.keys() & other.keys()
    return any(not is_same_code(known[number], other[number]) for number in shared)


def lend(files: list[FileEvents]) -> None:
    """Where a file has only the names of a program's ops, use the HLO that another file has."""
    whole: dict[int, Program] = {}
    unclear = set()
    for number, program in _all(files):
        if not program.loose and not is_same_code(whole.setdefault(number, program), program):
            unclear.add(number)
    for file in files:
        for number, program in file.programs.items():
            found = None if number in unclear else whole.get(number)
            if program.loose and found is not None and found.module == program.module:
                file.programs[number] = found


def join_programs(files: Iterable[FileEvents]) -> dict[int, Program]:
    """The programs of a world's files, by id; in a world ids do not clash."""
    by_id: dict[int, list[Program]] = {}
    files = list(files)
    for number, program in _all(files):
        by_id.setdefault(number, []).append(program)
    return {number: _joined(number, programs, files) for number, programs in by_id.items()}


def keep_launched(files: Sequence[FileEvents]) -> None:
    """Drop programs that no launch names: a process that captured other runs before has theirs too.

    Nothing is dropped where no launch names its program.
    """
    launched: set[int] = set()
    for file in files:
        for plane in file.planes:
            launched.update(plane.launches["program_id"].drop_nulls().unique())
    if not launched:
        return
    for file in files:
        for number in [number for number in file.programs if number not in launched]:
            del file.programs[number]


def _all(files: Iterable[FileEvents]) -> list[tuple[int, Program]]:
    return [pair for file in files for pair in file.programs.items()]


def _joined(number: int, programs: list[Program], files: list[FileEvents]) -> Program:
    whole = [program for program in programs if not program.loose]
    if not whole:
        return programs[0] if len(programs) == 1 else _of_all_texts(number, programs, files)
    first, *others = whole
    places = dict.fromkeys(each.assignment for each in others if each.assignment is not None)
    elsewhere = tuple(place for place in places if place != first.assignment)
    return replace(first, elsewhere=elsewhere) if elsewhere else first


def _of_all_texts(number: int, programs: list[Program], files: list[FileEvents]) -> Program:
    """A program built from the names of its ops in all files."""
    texts: dict[str, str] = {}
    for file in files:
        texts |= file.op_texts.by_program.get(number, {})
    if not texts:  # a Chrome trace's
        return max(programs, key=lambda program: len(list(program.instructions())))
    first = programs[0]
    return program_of_instructions(texts.values(), number, first.module, "").program
