"""Layer, component and pipeline tick of an op, from the module path in its op_name."""

from __future__ import annotations

import re
from functools import cache

from xlahouse.capture.manifest import MARKER_PREFIX

# `model.layers.3.self_attn` (torch), `layers_3/attention` (flax), `blocks.3`, `layer.3`.
# Frameworks choose the names: a longer number is not an index, and would not fit a column.
_INDEX_PATTERN = r"([0-9]{1,9})(?![0-9])"
_LAYER = re.compile(rf"(?:^|[./_])(?:layers?|blocks?|h)[._/\[]{_INDEX_PATTERN}")
# The scope of one tick of a stage-stacked pipeline (capture's marker grammar).
_TICK = re.compile(rf"(?:^|[./_]){re.escape(MARKER_PREFIX)}tick\.{_INDEX_PATTERN}")
# The first that matches anywhere in the path wins: a norm inside attention is attention's.
_COMPONENTS = (
    (
        "moe",
        re.compile(r"(?:^|[./_])(?:moe|experts?|shared_experts?|router)(?:[./_]|$)|mlp\.gate[./]"),
    ),
    ("attention", re.compile(r"(?:^|[./_])(?:self_)?(?:attn|attention)(?:[./_]|$)")),
    ("mlp", re.compile(r"(?:^|[./_])(?:mlp|ffn|feed_forward)(?:[./_]|$)")),
    (
        "embedding",
        re.compile(r"(?:^|[./])(?:embed|embed_tokens|embedding|embedder|wte)(?:[./_]|$)"),
    ),
    ("head", re.compile(r"(?:^|[./])(?:lm_head|head|logits)(?:[./_]|$)")),
    ("norm", re.compile(r"(?:^|[./])\w*norm(?:[./_]|$)")),
)

# Kernels written by hand carry the name of their algorithm, and often no path: (component, pattern).
KERNELS = (
    (
        "attention",
        r"(?i)paged_?attention|flash_?(?:attention|attn)|splash|fmha|(?:^|[^a-z])(?:rpa|sdpa)(?:[^a-z]|$)",
    ),
    (
        "moe",
        r"(?i)grouped_?(?:matmul|gemm)|megablox|ragged_?dot|(?:^|[^a-z])t?gmm(?:[^a-z]|$)",
    ),
)
_BY_KERNEL = tuple((name, re.compile(pattern)) for name, pattern in KERNELS)


@cache
def layer_of(path: str) -> int | None:
    """Index of the layer that a module path names; None where it names no layer."""
    match = _LAYER.search(path)
    return int(match[1]) if match else None


@cache
def component_of(path: str) -> str | None:
    """attention, mlp, moe, embedding, head or norm; None where the path names no component and no kernel."""
    named = (name for name, pattern in _COMPONENTS if pattern.search(path))
    return next(named, None) or component_of_kernel(path)


@cache
def component_of_kernel(name: str) -> str | None:
    """The component whose kernel has that name; None where the name is of no such kernel."""
    return next((part for part, pattern in _BY_KERNEL if pattern.search(name)), None)


@cache
def tick_of(path: str) -> int | None:
    """Tick of a stage-stacked pipeline that a scope names; None outside one."""
    match = _TICK.search(path)
    return int(match[1]) if match else None
