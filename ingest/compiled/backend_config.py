"""What a TPU's compiler notes about an instruction in its `backend_config`: its cost, and how it transfers.

The notes are JSON, and their numbers are texts: `"estimated_cycles":"14180608"`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.ingest.hlo.messages import HloInstruction

_NOTED = (b'"estimated_cycles"', b'"collective_algorithm_config"')
# `UniDirectionNDRingStrategy{colors:4 phases:2 cores:{4 4},{4 4},{4 4},{4 4} nophase0:0 …}`
_RINGS = re.compile(r"\bcolors:(\d{1,9}) phases:(\d{1,9}) cores:((?:\{[\d ]*\},?)+)")
_NUMBER = re.compile(r"\d{1,18}")


class _Window(msgspec.Struct):
    estimated_cycles: str | int | None = None  # of one execution


class _Algorithm(msgspec.Struct):
    emitter: str | None = None  # the part of the compiler that emits the transfer
    strategy: str | None = None  # its way over the links
    debug: str | None = None  # text with its colours, phases and rings


class _Config(msgspec.Struct):
    window_config: _Window | None = None  # costs of a fusion or a convolution
    collective_algorithm_config: _Algorithm | None = None  # the way of a transfer


@dataclass(frozen=True)
class CompilerNotes:
    """The columns of `instructions` that come from a backend_config; None where it does not say."""

    estimated_cycles: int | None = None  # of one execution
    collective_emitter: str | None = None  # the part of the compiler that emits the transfer
    collective_strategy: str | None = None  # its way over the links
    collective_colors: int | None = None  # parts of the payload that take ways of their own
    collective_phases: int | None = None  # of each colour
    collective_rings: str | None = None  # devices on a ring by phase, of each colour: `4 4,4 4`
    collective_detail: str | None = None  # all that the compiler says of it


NOTHING = CompilerNotes()
_decode = msgspec.json.Decoder(_Config).decode


def compiler_notes(instruction: HloInstruction) -> CompilerNotes:
    """What its backend_config says.

    Raises:
        ValueError: it says something of these, and cannot be read.
    """
    raw = instruction.backend_config
    if not raw or not any(word in raw for word in _NOTED):
        return NOTHING
    try:
        config = _decode(raw)
    except JSON_FAULTS as error:
        raise ValueError(f"its backend_config cannot be read: {error}") from error
    cycles = (
        None if config.window_config is None else _number(config.window_config.estimated_cycles)
    )
    algorithm = config.collective_algorithm_config
    if algorithm is None:
        return CompilerNotes(cycles)
    rings = _RINGS.search(algorithm.debug or "")
    return CompilerNotes(
        cycles,
        algorithm.emitter or None,
        algorithm.strategy or None,
        int(rings[1]) if rings else None,
        int(rings[2]) if rings else None,
        rings[3].strip("{},").replace("},{", ",") if rings else None,
        (algorithm.debug or "").strip() or None,
    )


def _number(stated: str | int | None) -> int | None:
    """A number of at most 18 digits that is not negative; None for anything else."""
    return int(stated) if stated is not None and _NUMBER.fullmatch(str(stated)) else None
