"""Where the public sample traces are; tests that read them skip, with the reason, where there are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SAMPLES = Path(os.environ.get("XLAHOUSE_TRACES") or Path(__file__).parents[2] / "shared" / "traces")


def sample(name: str) -> Path:
    """The sample of that name, such as `tpu/v6e_4dev_jax_psum_offload.xplane.pb`."""
    path = SAMPLES / name
    if not path.exists():
        pytest.skip(f"no {name} in {SAMPLES}; set XLAHOUSE_TRACES")
    return path
