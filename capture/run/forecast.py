"""Memory, FLOPs and collectives of an experiment, from tracing its steps on tensors without data."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from xlahouse.capture.models.alike import AlikeLayers
from xlahouse.capture.models.decode import Generator
from xlahouse.capture.models.paper import Collective, PaperCollectives, PaperLayout, PaperWeights
from xlahouse.capture.models.server import Server
from xlahouse.capture.models.sharded import ShardedModel
from xlahouse.capture.models.watermark import Watermark
from xlahouse.capture.plan import Experiment
from xlahouse.capture.serving import buckets_of

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class DeviceShare:
    """One device's share: its bytes, and its collectives in each kind of step.

    temporary_bytes is for the larger step, op by op as transformers writes them; XLA fuses ops
    (less memory) and pads (more).
    """

    parameters: int  # of the whole model
    weight_bytes: int  # a device's shards
    cache_bytes: int  # a device's shards
    temporary_bytes: int  # an estimate: the largest sum of op results that are alive at once
    prefill: Counter[Collective]  # collective -> how often; a server's is the longest
    decode: Counter[Collective]  # collective -> how often, in each step
    prefill_flops: int  # a device's, of matrix products
    decode_flops: int  # a device's, of matrix products, in each step

    @property
    def total_bytes(self) -> int:
        """Weights, cache and temporaries together."""
        return self.weight_bytes + self.cache_bytes + self.temporary_bytes


def forecast(experiment: Experiment) -> DeviceShare:
    """Build the experiment's sharded model at true shapes, and trace a prefill and a decode step.

    It computes nothing and needs no device; torch and transformers must be installed.
    """
    # Name, seed, repeat and slice do not change the forecast.
    alike = msgspec.structs.replace(experiment, name="x", seed=0, repeat=0, slice="")
    return _forecast(msgspec.json.encode(alike))


@functools.lru_cache(maxsize=1024)
def _forecast(encoded: bytes) -> DeviceShare:
    experiment = msgspec.json.decode(encoded, type=Experiment)
    collectives = PaperCollectives(PaperLayout(experiment.mesh))
    sharded = ShardedModel(experiment.blueprint, PaperWeights(), collectives)
    mark = Watermark()
    layers = AlikeLayers(sharded, collectives, mark)
    steps, flops = [], []
    serves = experiment.serving is not None
    for tokens in (buckets_of(experiment)[-1] if serves else experiment.prompt_tokens, 1):
        collectives.noted.clear()
        layers.forget()
        mark.flops = 0
        trace = _trace_server if serves else _trace
        trace(sharded, mark, experiment.batch_size, tokens)
        steps.append(Counter(collectives.noted))
        flops.append(mark.flops)
    return DeviceShare(
        parameters=sharded.placed.parameters,
        weight_bytes=_bytes(sharded.placed.tensors.values()),
        cache_bytes=_bytes(sharded.cache.whole.values()),
        temporary_bytes=mark.most,
        prefill=steps[0],
        decode=steps[1],
        prefill_flops=flops[0],
        decode_flops=flops[1],
    )


def _trace(sharded: ShardedModel, mark: Watermark, batch: int, tokens: int) -> None:
    """Trace a step of `tokens` tokens of each sequence."""
    import torch

    generator = Generator(sharded, 1)
    prompt = torch.empty(batch, tokens, dtype=torch.long, device="meta")
    placed, positions = generator.begin(prompt)
    with torch.no_grad(), mark.watching():
        generator.logits(placed[0], positions)


def _trace_server(sharded: ShardedModel, mark: Watermark, slots: int, tokens: int) -> None:
    """Trace a server's prefill of so many tokens, a prompt for each part of the batch, or a decode step."""
    import torch

    server = Server(sharded, slots)
    prompts, slot, counts = server.arguments(tokens, {})
    with torch.no_grad(), mark.watching():
        if tokens > 1:
            server.prefill_logits(prompts[0], slot, counts)
        else:
            server.decode_logits(server.state[0][0], server.state[1])


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of all tensors; tied ones count once."""
    return sum(
        each.numel() * each.element_size() for each in {id(each): each for each in tensors}.values()
    )
