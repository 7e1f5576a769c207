"""Finds what communicates in unknown ways: kernels that send to other cores, and sends to other slices."""

from __future__ import annotations

import re

from xlahouse.ingest.hlo.messages import HloInstruction
from xlahouse.ingest.hlo.program import Program

# JAX writes has_communication only where it is true. A collective_id names the barrier of kernels that send.
# In HLO text the quotation marks may be escaped.
_SENDS = re.compile(rb'"has_communication\\*"\s*:\s*true|"collective_id\\*"\s*:\s*\\*"?\d')
# Kernels that are named after a collective, where no configuration is known: `ragged_all_to_all_kernel.3`.
COLLECTIVE_NAME = (
    r"(?:all|ragged)[_-](?:to[_-]all|gather|reduce|a2a)|reduce[_-]scatter|collective|ppermute"
)
_NAMED = re.compile(COLLECTIVE_NAME.encode())
_WRAPPERS = (b"fusion", b"async-start", b"custom-call")
_BETWEEN = (b"send", b"recv")
_DEEPEST = 16  # wrappers within wrappers; damaged HLO may call itself


def communicating(program: Program) -> set[int]:
    """Ids of the instructions that run such a kernel (custom calls, what wraps them), and of such sends."""
    found = {
        each.id
        for _, each in program.instructions()
        if _communicates(each) or (_names_megascale(each) and each.id not in program.dcn_parts)
    }
    for _ in range(_DEEPEST if found else 0):
        wrappers = {
            each.id
            for _, each in program.instructions()
            if each.opcode in _WRAPPERS
            and each.id not in found
            and any(
                inner.id in found
                for computation in program.called(each)
                for inner in computation.instructions
            )
        }
        if not wrappers:
            break
        found |= wrappers
    return found


def _names_megascale(instruction: HloInstruction) -> bool:
    """Whether a send or recv goes between slices, as far as its attributes tell under whichever names."""
    told = instruction.frontend_attributes.map if instruction.opcode in _BETWEEN else ()
    return any(b"megascale" in each.key + each.value for each in told)


def _communicates(instruction: HloInstruction) -> bool:
    if instruction.opcode != b"custom-call":
        return False
    if instruction.backend_config:
        return _SENDS.search(instruction.backend_config) is not None
    return _NAMED.search(instruction.name) is not None
