"""How a model lies on the mesh: one table from parameter to mesh axes; a new layout is one edit.

The layout is Megatron's: attention and MLP are split by columns, then by rows, over `tp`; the
embedding and the head are split by vocabulary; `dp` splits the batch and no weight. Collectives of
one step with tp > 1, and no others (rows = batch / dp x tokens of the step, in the run's dtype, but
float32 where a CPU runs bfloat16; each over the tp devices that share a dp coordinate):

- 1 all-reduce [rows, hidden]: the embedding, where each device knows a part of the vocabulary;
- 2 all-reduces [rows, hidden] a layer: the output projections of attention and of the MLP;
- 1 all-gather of the last position's logits to [batch / dp, 1, vocab], before the argmax.

`dp` alone needs none: every device keeps its own sequences, and the host reads each one's tokens.
"""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.plan import Experiment

Spec = tuple[str | None, ...]  # a mesh axis, or None, for each dimension of a tensor

# First match wins. A parameter that matches nothing (the norms) is on every device.
PARAMETERS: dict[str, Spec] = {
    "model.embed_tokens.weight": ("tp", None),  # [vocab, hidden]
    "lm_head.weight": ("tp", None),  # [vocab, hidden]
    "*.self_attn.[qkv]_proj.weight": ("tp", None),  # [heads x head_dim, hidden]
    "*.self_attn.o_proj.weight": (None, "tp"),  # [hidden, heads x head_dim]
    "*.mlp.gate_proj.weight": ("tp", None),  # [intermediate, hidden]
    "*.mlp.up_proj.weight": ("tp", None),  # [intermediate, hidden]
    "*.mlp.down_proj.weight": (None, "tp"),  # [hidden, intermediate]
}
CACHE: Spec = ("dp", "tp", None, None)  # [batch, kv_heads, slots, head_dim]
TOKENS: Spec = ("dp", None)  # [batch, tokens]
LOGITS: Spec = ("dp", None, None)  # [batch, 1, vocab]: gathered, so that argmax sees all of it


def parameter_spec(name: str) -> Spec | None:
    """The table's entry for a parameter, by its module path; None: on every device."""
    return next(
        (spec for pattern, spec in PARAMETERS.items() if fnmatch.fnmatchcase(name, pattern)), None
    )


def on_mesh(spec: Spec, axes: tuple[str, ...]) -> Spec:
    """`spec` without the axes that the mesh does not have."""
    return tuple(axis if axis in axes else None for axis in spec)


class Layout:
    """The mesh of one experiment, and how to place tensors on it; torch_xla is in SPMD mode."""

    def __init__(self, experiment: Experiment) -> None:
        import numpy as np
        import torch_xla.distributed.spmd as xs

        self.axes = tuple(experiment.mesh)
        self.device_ids = list(range(experiment.device_count))
        self.mesh = xs.Mesh(np.array(self.device_ids), tuple(experiment.mesh.values()), self.axes)

    def place(self, tensor: torch.Tensor, spec: Spec) -> torch.Tensor:
        """Mark `tensor`, on the XLA device, as sharded by `spec`, and return it."""
        import torch_xla.distributed.spmd as xs

        xs.mark_sharding(tensor, self.mesh, on_mesh(spec, self.axes))
        return tensor

    def place_model(self, model: torch.nn.Module) -> None:
        """Shard the parameters of `model`, which is on the XLA device, by the table; and gather
        the logits inside the head, so that the all-gather is known as the head's."""
        for name, parameter in model.named_parameters():
            spec = parameter_spec(name)
            if spec is not None:
                self.place(parameter, spec)
        model.get_submodule("lm_head").register_forward_hook(
            lambda _module, _inputs, logits: self.place(logits, LOGITS)
        )
