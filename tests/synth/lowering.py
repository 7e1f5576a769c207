"""The state of a program while it is lowered to HLO, and the helpers that its ops share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from tests.synth.describe import Run
from tests.synth.hlo import Computation, Instruction, Shape
from tests.synth.programs import Program
from tests.synth.segments import Segment

SCOPES = {"attention": "self_attn", "mlp": "mlp"}


@dataclass
class Lowering:
    """What has been lowered so far: callees, traced ops by name, collectives counted."""

    run: Run
    program: Program
    callees: list[Computation] = field(default_factory=list)
    ops: dict[str, Instruction] = field(default_factory=dict)
    collectives: int = 0

    def array(self, dims: tuple[int, ...], space: int = 0) -> Shape:
        """A shape of the run's type."""
        return Shape(self.run.dtype, dims, space)

    def op_name(self, segment: Segment) -> str:
        """torch_xla's path: each scope with a counter of its own."""
        count = len(self.ops)
        path = [] if segment.tick is None else [f"xlahouse.tick.{segment.tick}.{count}"]
        if segment.layer is not None and segment.component in SCOPES:
            layer = f"model.layers.{segment.layer}"
            path += [f"{layer}.{count}", f"{layer}.{SCOPES[segment.component]}.{count}"]
        elif segment.component in ("embedding", "head"):
            path.append({"embedding": "model.embed_tokens", "head": "lm_head"}[segment.component])
        return "/".join([*path, "aten__mm"])

    def fitted(self, body: Computation, value: Instruction, dims: tuple[int, ...]) -> Instruction:
        """The value sliced or broadcast to the dims that an instruction wants."""
        if value.shape == self.array(dims):
            return value
        opcode = "slice" if math.prod(dims) < math.prod(value.shape.dims) else "broadcast"
        name = f"{opcode}.{len(body.instructions)}"
        return body.add(Instruction(name, opcode, self.array(dims), (value,)))

    def traced(self, body: Computation, segment: Segment, instruction: Instruction) -> Instruction:
        """Add an instruction that has trace events."""
        named = replace(instruction, op_name=self.op_name(segment))
        self.ops[segment.op] = named
        return body.add(named)


def called_computation(lowering: Lowering, name: str, inner: list[Instruction]) -> str:
    """A computation of a parameter and what is done with it."""
    lowering.callees.append(Computation(name, inner))
    return name
