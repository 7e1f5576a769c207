"""Matches dumps to programs without ids: all programs of a framework may have one name.

The names of ops in a trace are instructions: a dump that lacks them, or gives them other shapes, is of
another program. A dump of a program whose HLO the trace holds is of no other one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from xlahouse.ingest.hlo import shapes
from xlahouse.ingest.hlo.messages import Shape
from xlahouse.ingest.hlo.program import Program
from xlahouse.ingest.hlo.shared_programs import is_same_code

Arrays: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]  # element type and dimensions of each


def choose(
    dumps: Sequence[Program], wanted: Iterable[int], known: dict[int, Program]
) -> dict[int, Program]:
    """The dump of each program that only one dump can belong to.

    Args:
        dumps: programs of one name, read from dumps.
        wanted: ids of programs of that name whose HLO is wanted.
        known: programs of that name in the trace, as HLO or by the names of their ops.
    """
    whole = [_outline(program) for program in known.values() if not program.loose]
    left = [dump for dump in _distinct(dumps) if _outline(dump) not in whole]
    can_be = {
        number: [dump for dump in left if _fits(dump, known.get(number))] for number in wanted
    }
    chosen = {number: fitting[0] for number, fitting in can_be.items() if len(fitting) == 1}
    # A dump that fits two programs is used for neither, unless another dump fits one of them.
    owners = [id(dump) for dump in chosen.values()]
    return {number: dump for number, dump in chosen.items() if owners.count(id(dump)) == 1}


def _distinct(dumps: Sequence[Program]) -> list[Program]:
    """The dumps without repeats, such as other processes write."""
    found: list[Program] = []
    for dump in dumps:
        if not any(
            dump.assignment == other.assignment and is_same_code(dump, other) for other in found
        ):
            found.append(dump)
    return found


def _fits(dump: Program, named: Program | None) -> bool:
    """Whether a dump holds the instructions by which a trace names a program's ops."""
    if named is None or not named.loose:
        return True
    held = _outline(dump)
    return all(
        name in held and (held[name] == arrays or not arrays or not held[name])
        for name, arrays in _outline(named).items()
    )


def _outline(program: Program) -> dict[bytes, Arrays]:
    """Arrays of each instruction, by name; () where one of them is unknown."""
    return {each.name: _arrays(each.shape) for _, each in program.instructions()}


def _arrays(shape: Shape) -> Arrays:
    leaves = shapes.leaves(shape)
    if not all(shapes.is_known(leaf) for leaf in leaves):
        return ()
    return tuple((leaf.element_type, tuple(leaf.dimensions)) for leaf in leaves)
