"""Which kind of collective a kernel of NCCL or RCCL runs, by its name."""

from __future__ import annotations

import re

KERNEL = r"(?i)^(?:void )?(?:nccl|rccl)|cross_device_reduce|^(?:void )?\w+::(?:nccl|rccl)"
_KIND_PATTERNS = (
    (r"(?i)all_?reduce|cross_device_reduce", "all-reduce"),
    (r"(?i)all_?gather", "all-gather"),
    (r"(?i)reduce_?scatter", "reduce-scatter"),
    (r"(?i)all_?to_?all", "all-to-all"),
    (r"(?i)broadcast", "collective-broadcast"),
    # PyTorch's own names of single transfers; NCCL's SendRecv kernel may be part of an all-to-all.
    (r"(?i)^(?:nccl:)?i?(?:send|recv)(?:_any_source)?(?![a-z_])", "send-recv"),
)


def kind_of(name: str) -> str | None:
    """Kind by a collective's name, in any of PyTorch's and NCCL's spellings."""
    return next((kind for pattern, kind in _KIND_PATTERNS if re.search(pattern, name)), None)
