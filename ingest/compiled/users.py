"""Layer and component of what a compiler adds to a model's program, such as copies into VMEM.

Such an instruction has no op_name. It has the layer and the component of its users: on each way of its
value, of the first instruction whose op_name states one of them. Where users disagree on the layer, or on
the component, that is None. A loop, branch or call hands a value on to more than one instruction, so users
beyond it are not known, and both are None. A value that nothing takes, such as a cache that is copied back
and returned, has the scope of the instruction that made it.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from xlahouse.ingest.hlo.messages import HloInstruction
from xlahouse.ingest.hlo.program import Program
from xlahouse.ingest.hlo.scopes import component_of, layer_of

_RUNS_OTHERS = (b"while", b"conditional", b"call")


class Scope(NamedTuple):
    """A place in the model."""

    layer: int | None  # number of the decoder layer; None outside of them
    component: str | None  # part of the model, such as attention; None where it is not known


NOWHERE = Scope(None, None)


def scopes_by_use(program: Program, scheduled: Container[int]) -> dict[int, Scope]:
    """Scopes of the scheduled instructions without an op_name, by id; unknown ones are left out.

    Args:
        program: a program; its instructions stand behind their operands, and callers behind what they call.
        scheduled: ids of the instructions in its schedule.
    """
    ordered = [instruction for _, instruction in program.instructions()]
    stated = {each.id: path for each in ordered if (path := program.framework_op(each))}
    own = {number: scope_of(path) for number, path in stated.items()}
    used = _by_users(program, ordered, own)
    found: dict[int, Scope] = {}
    made = {number: scope for number, scope in own.items() if scope != NOWHERE}
    for each in ordered:
        if each.id in stated or not each.operand_ids:
            continue
        scope = used.get(each.id)
        if each.opcode in _RUNS_OTHERS:
            scope = NOWHERE
        elif scope is None:
            scope = made.get(each.operand_ids[0], NOWHERE)
        if scope != NOWHERE:
            made[each.id] = scope
            if each.id in scheduled:
                found[each.id] = scope
    return found


def scope_of(path: str) -> Scope:
    """The scope that an op_name states."""
    return Scope(layer_of(path), component_of(path))


def _by_users(
    program: Program, ordered: list[HloInstruction], own: dict[int, Scope]
) -> dict[int, Scope]:
    """By id of an instruction, the scope on which its users agree; users come before what they use."""
    used: dict[int, Scope] = {}
    for each in reversed(ordered):
        scope: Scope | None = own.get(each.id, NOWHERE)
        if scope == NOWHERE:
            scope = NOWHERE if each.opcode in _RUNS_OTHERS else used.get(each.id)
        if scope is not None:
            for number in (*each.operand_ids, *_roots(program, each)):
                used[number] = _agreed(used.get(number, scope), scope)
    return used


def _roots(program: Program, start: HloInstruction) -> list[int]:
    """The instructions that make the value of an async start."""
    called = program.called(start) if start.opcode == b"async-start" else []
    return [computation.root_id for computation in called]


def _agreed(one: Scope, other: Scope) -> Scope:
    return Scope(
        one.layer if one.layer == other.layer else None,
        one.component if one.component == other.component else None,
    )
