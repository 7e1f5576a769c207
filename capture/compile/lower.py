"""Traces the prefill and the decode step of an experiment to HLO, in a process of its own.

`python -m xlahouse.capture.compile.lower` reads a LowerJob (JSON) from stdin and writes `prefill.pb` and
`decode.pb`, each the HloModuleProto of the program before partitioning, into its folder; its last line
on stdout is a Lowered (JSON). The code is what capture runs, at real sizes; weights take no memory.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from xlahouse.capture.compile.compiler import end_with_parent
from xlahouse.capture.compiled_facts import PROGRAMS
from xlahouse.capture.plan import Experiment
from xlahouse.capture.run.job import without_jax

if TYPE_CHECKING:
    from xlahouse.capture.compile.placeholders import PlaceholderLayout
    from xlahouse.capture.models.sharded import ShardedModel

CACHE = (
    "xlahouse.cache"  # scope of the cache's arguments, as capture/compile/compiler.py finds them
)

ARGUMENTS = ("tokens", "positions", "prompts", "slot", "counts")  # of a server's programs


class LowerJob(msgspec.Struct, frozen=True, kw_only=True):
    """The task of the process."""

    experiment: Experiment  # to trace
    folder: str  # for the programs
    programs: tuple[str, ...] = PROGRAMS  # to trace


class Lowered(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of the traced model and the variables that shaped its programs, for its manifest."""

    parameters: int  # of the whole model
    weight_bytes: int  # of all parameters, each counted once
    kv_bytes_per_token: int  # keys and values of one token of one sequence
    flags: dict[str, str]  # as a capture on TPUs records them, but for LIBTPU_INIT_ARGS


def lower(job: LowerJob) -> Lowered:
    """Write the programs."""
    from xlahouse.capture.models.cache import bytes_per_token
    from xlahouse.capture.run.record import DTYPE_BYTES, RECORDED_VARIABLES

    experiment = job.experiment
    os.environ |= {
        "PJRT_DEVICE": "CPU",
        "CPU_NUM_DEVICES": str(experiment.device_count),
        "XLA_IR_DEBUG": "1",  # both put scopes into op_names
        "XLA_HLO_DEBUG": "1",
    }
    without_jax()
    import torch_xla.runtime as xr
    from torch_xla.backends import set_mat_mul_precision

    xr.use_spmd()
    if experiment.dtype == "float32":  # as capture sets it on a TPU
        set_mat_mul_precision("highest")
    for program in job.programs:
        layout, sharded = placeholders(experiment)
        trace = trace_step if experiment.serving is None else trace_server
        proto = trace(experiment, layout, sharded, program == "prefill")
        Path(job.folder, f"{program}.pb").write_bytes(proto)
    width = DTYPE_BYTES[experiment.dtype]
    flags = {name: os.environ[name] for name in RECORDED_VARIABLES if name in os.environ}
    del flags["CPU_NUM_DEVICES"]
    return Lowered(
        parameters=sharded.placed.parameters,
        weight_bytes=sharded.placed.weight_bytes,
        kv_bytes_per_token=bytes_per_token(experiment.model.family, sharded.model.config, width),
        flags=flags | {"PJRT_DEVICE": "TPU"},
    )


def placeholders(experiment: Experiment) -> tuple[PlaceholderLayout, ShardedModel]:
    """The experiment's model with placeholders for its weights and cache, each with its name."""
    from xlahouse.capture.compile.placeholders import PlaceholderLayout
    from xlahouse.capture.models.collectives import MeshCollectives
    from xlahouse.capture.models.paper import PaperWeights
    from xlahouse.capture.models.sharded import ShardedModel
    from xlahouse.capture.run.profile import add_scopes

    layout = PlaceholderLayout(experiment.mesh)
    sharded = ShardedModel(experiment.blueprint, PaperWeights(), MeshCollectives(layout))
    add_scopes(sharded.model, experiment.scopes, sharded.stages.scope)
    for name, tensor in sharded.placed.tensors.items():
        layout.name(tensor, name)
    for (layer, entry), tensor in sharded.cache.whole.items():
        layout.name(tensor, f"{CACHE}.{layer}.{entry}")
    for axis, tensor in sharded.places.items():
        layout.name(tensor, f"xlahouse.place.{axis}")
    return layout, sharded


def trace_step(
    experiment: Experiment, layout: PlaceholderLayout, sharded: ShardedModel, prefill: bool
) -> bytes:
    """The HloModuleProto of a prefill or a decode step of all sequences."""
    import torch
    import torch_xla

    from xlahouse.capture.models.decode import Generator

    generator = Generator(sharded, experiment.output_tokens)
    tokens = experiment.prompt_tokens if prefill else 1
    prompt = torch.empty(experiment.batch_size, tokens, dtype=torch.int64, device="meta")
    with torch.no_grad():
        sequences, positions = generator.begin(prompt)
        layout.name(sequences, "xlahouse.tokens")
        layout.name(positions, "xlahouse.positions")
        results = generator._step(sequences, positions)
        roots = [*sharded.cache.whole.values(), *results]
        proto: bytes = torch_xla._XLAC._get_xla_tensors_hlo_proto(roots)
    return proto


def trace_server(
    experiment: Experiment, layout: PlaceholderLayout, sharded: ShardedModel, prefill: bool
) -> bytes:
    """The HloModuleProto of a server's longest prefill, or of its decode step of all slots."""
    import torch
    import torch_xla

    from xlahouse.capture.models.server import DECODE, Server
    from xlahouse.capture.serving import buckets_of

    length = buckets_of(experiment)[-1] if prefill else DECODE
    with torch.no_grad():
        server = Server(sharded, experiment.batch_size)
        arguments = [*server.state, *(server.arguments(length, {}) if prefill else ())]
        for tensor, name in zip(arguments, ARGUMENTS, strict=False):
            layout.name(tensor, f"xlahouse.{name}")
        results = server.step_of(length)(*arguments)
        roots = [*sharded.cache.whole.values(), *results]
        proto: bytes = torch_xla._XLAC._get_xla_tensors_hlo_proto(roots)
    return proto


if __name__ == "__main__":
    end_with_parent()
    lowered = lower(msgspec.json.decode(sys.stdin.buffer.read(), type=LowerJob))
    print(msgspec.json.encode(lowered).decode())
