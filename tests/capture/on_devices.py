"""What a test asks of four virtual devices, in one process: `python -m tests.capture.on_devices FOLDER`.

It prints one JSON object. torch_xla reads the number of devices once, so a test cannot do this itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec

os.environ |= {
    "PJRT_DEVICE": "CPU",
    "CPU_NUM_DEVICES": "4",
    "XLA_IR_DEBUG": "1",
    "XLA_HLO_DEBUG": "1",
}

import torch
import torch_xla
import torch_xla.debug.metrics as met
import torch_xla.runtime as xr
from torch_xla.distributed.spmd import wrap_if_sharded

from tests.capture.profile_reader import read_profile
from xlahouse.capture.models import placing
from xlahouse.capture.models.decode import Generator, fetch
from xlahouse.capture.models.drawing import Drawing
from xlahouse.capture.models.families import FAMILIES
from xlahouse.capture.models.sharded import ShardedModel
from xlahouse.capture.models.sharding import Layout
from xlahouse.capture.models.weights import RandomWeights
from xlahouse.capture.plan import Experiment
from xlahouse.capture.run.profile import add_scopes, session
from xlahouse.capture.run.record import counts
from xlahouse.capture.run.reference import draw_prompts

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "max_position_embeddings": 2048,
}
MESHES = [{"tp": 4}, {"ep": 2, "tp": 2}, {"fsdp": 4}, {"dp": 4}, {"pp": 2, "tp": 2}, {"sp": 4}]
# name -> shape; experts are packed, gate before up
DRAWN = {
    "model.embed_tokens.weight": (64, 32),
    "model.layers.{}.mlp.experts.gate_up_proj": (4, 32, 16),
    "model.layers.{}.self_attn.o_proj.weight": (32, 64),
}


def experiment(**changes):
    fields = {
        "name": "x",
        "model": {"name": "q", "preset": "qwen3-32b", "config": SMALL},
        "mesh": {"dp": 2, "tp": 2},
        "batch_size": 4,
        "prompt_tokens": 8,
        "output_tokens": 6,
    }
    return msgspec.convert(fields | changes, type=Experiment)


def weights_on(mesh, dtype):
    """Names of tensors whose shards are not those of the host's tensor."""
    layout, family, source = Layout(mesh), FAMILIES["deepseek_v3"], RandomWeights(5)
    wrong = []
    for pattern, shape in DRAWN.items():
        stacked = "pp" in mesh and "{}" in pattern
        names = [pattern.format(layer) for layer in ((1, 2) if stacked else (1,))]
        empty = torch.empty(shape, device="meta")
        whole = placing._drawn(family, source, layout, names[0], empty, names, dtype)
        parts = [source.tensor(name, empty).to(dtype) for name in names]
        want, _ = placing._laid_out(family, layout, names[0], parts)
        torch_xla.sync(wait=True)
        for shard in wrap_if_sharded(whole).local_shards:
            place = shard.indices if isinstance(shard.indices, list) else [slice(None)]
            if not torch.equal(shard.data, want[tuple(place)]):
                wrong.append(f"{mesh} {dtype} {pattern}")
    return wrong


def integer_ops():
    """Opcodes of the integer instructions with as many elements as the tensor drawn."""
    device = torch_xla.device()
    drawn = RandomWeights(5).drawing("lm_head.weight", torch.empty(48, 40, device="meta"))
    there = Drawing(
        rows=tuple(each.to(device) for each in drawn.rows),
        columns=tuple(each.to(device) for each in drawn.columns),
        scale=drawn.scale.to(device),
    )
    text = torch_xla._XLAC._get_xla_tensors_hlo([there.tensor()])
    found = re.findall(r"= [su]32\[48,40\]\S* ([\w-]+)\(", text)
    return [opcode for opcode in found if opcode != "broadcast"]


def traced(generator, prompt):
    """Tokens of the same steps, each traced, launched and awaited in turn."""
    columns = []
    with torch.no_grad():
        tokens, positions = generator.begin(prompt)
        for _ in range(generator.output_tokens):
            tokens, positions = generator._step(tokens, positions)
            torch_xla.sync(wait=True)
            columns.append(fetch(tokens))
    return torch.cat(columns, dim=1).tolist()


def scoped_ops(folder):
    """How often each (opcode, scopes) ran."""
    profile = read_profile(folder)
    named = {
        (program, instruction.name): instruction
        for program, module in profile.programs.items()
        for computation in module.computations
        for instruction in computation.instructions
    }
    ran = Counter()
    for op in profile.ops:
        instruction = named[op.stats["program_id"], op.stats["hlo_op"]]
        scopes = instruction.metadata.op_name.split("/")[:-1]
        # torch_xla numbers its scopes: model.layers.0.mlp.5
        ran[instruction.opcode, "/".join(each.rpartition(".")[0] for each in scopes)] += 1
    return ran


def replay(folder):
    plan = experiment()
    sharded = ShardedModel(plan.blueprint, RandomWeights(0))
    add_scopes(sharded.model, plan.scopes, sharded.stages.scope)
    prompt = draw_prompts(plan)[0]
    for_traced = Generator(sharded, plan.output_tokens)
    first = traced(for_traced, prompt)
    traced(for_traced, prompt)  # the second prefill meets the first one's cache, and compiles
    with session(folder / "traced"):
        traced(for_traced, prompt)
    generator = Generator(sharded, plan.output_tokens, ahead=2)

    def run():
        return generator.run(prompt, lambda step: contextlib.nullcontext())[0].tolist()

    tokens = [first, run()]
    before = counts()
    with session(folder / "replayed"):
        tokens.append(run())
    spent = counts() - before
    ways = [scoped_ops(folder / way) for way in ("traced", "replayed")]
    return {
        "tokens": tokens,
        "compiles": spent.compiles,
        "launches": spent.launches,
        "ops": sum(ways[0].values()),
        "scoped": sum(number for (_, scopes), number in ways[0].items() if "layers.1" in scopes),
        "different": sorted(map(str, ((ways[0] - ways[1]) + (ways[1] - ways[0])).items())),
    }


def host():
    """CPU seconds of this thread for 64 layers: tracing a step, and each of 40 replayed ones.

    And whether names are collected in a launch, and after it.
    """
    deep = {"name": "q", "preset": "qwen3-32b", "config": SMALL | {"num_hidden_layers": 64}}
    plan = experiment(model=deep, mesh={"tp": 4}, prompt_tokens=1, output_tokens=41)
    sharded = ShardedModel(plan.blueprint, RandomWeights(0))
    add_scopes(sharded.model, plan.scopes, sharded.stages.scope)
    generator = Generator(sharded, plan.output_tokens)
    tracing, named = [], []
    step, launch = generator._step, torch_xla._XLAC._run_cached_graph

    def timed(*arguments):
        before = time.thread_time()
        found = step(*arguments)
        tracing.append(time.thread_time() - before)
        return found

    def look(*arguments):
        named.append(torch_xla._XLAC._get_ir_debug())
        return launch(*arguments)

    generator._step, torch_xla._XLAC._run_cached_graph = timed, look
    _, times = generator.run(draw_prompts(plan)[0], lambda step: contextlib.nullcontext())
    torch_xla._XLAC._run_cached_graph = launch
    carried = len(sharded.cache.whole)
    after = torch_xla._XLAC._get_ir_debug()
    return {
        "tracing": tracing,
        "sending": times.sending,
        "carried": carried,
        "named": [any(named), after],
    }


def memory():
    """MiB of the cache, growth of this process over 20 steps, and of the tensors that are alive."""
    plan = experiment(batch_size=64, prompt_tokens=512, output_tokens=30)
    sharded = ShardedModel(plan.blueprint, RandomWeights(0))
    sizes = [each.numel() * each.element_size() for each in sharded.cache.whole.values()]
    generator = Generator(sharded, plan.output_tokens, ahead=2)
    seen = []

    def look(step):
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        alive = met.counter_value("CreateXlaTensor") - met.counter_value("DestroyXlaTensor")
        seen.append((resident, alive))
        return contextlib.nullcontext()

    generator.run(draw_prompts(plan)[0], look)
    grown, alive = (last - first for first, last in zip(seen[9], seen[29], strict=True))
    return {"cache": sum(sizes) / 2**20, "grown": grown / 2**20, "alive": alive}


def main():
    xr.use_spmd()
    placing.DRAWN = 1  # the devices draw the smallest tensor too
    folder = Path(sys.argv[1])
    wrong = [
        each
        for mesh in MESHES
        for dtype in (torch.bfloat16, torch.float32)
        for each in weights_on(mesh, dtype)
    ]
    found = {"wrong": wrong, "integer_ops": integer_ops()}
    print(json.dumps(found | {"replay": replay(folder), "host": host(), "memory": memory()}))


if __name__ == "__main__":
    main()
