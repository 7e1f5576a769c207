"""METRICS, Hardware peaks: what a device could do, by its kind, else by what the trace says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.views.oracle.drawn import Row
from tests.views.oracle.reading import Run

# FLOP/s, HBM bytes/s, ICI bytes/s of a link one way, devices a chip.
TABLE = {
    "TPU v4": (2.75e14, 1.2e12, 4.5e10, 1),
    "TPU v5 lite": (1.97e14, 8.1e11, 4.5e10, 1),
    "TPU v5p": (4.59e14, 2.8e12, 9e10, 1),
    "TPU v6 lite": (9.18e14, 1.6e12, 9e10, 1),
    "TPU7x": (2.307e15, 7.38e12, 1e11, 2),
}
GIB = {"TPU v4": 32, "TPU v5 lite": 16, "TPU v5p": 95, "TPU v6 lite": 32, "TPU7x": 192}  # a chip


@dataclass(frozen=True)
class Peaks:
    """Of a device, per second; ici of one link of its chip, one way."""

    flops: float | None
    hbm: float | None
    ici: float | None


def peaks(run: Run, device: int) -> Peaks:
    """The table's, else the trace's; deduced devices have none, SparseCores a link's alone."""
    row = run.devices[device]
    if row["inferred"]:
        return Peaks(None, None, None)
    flops, hbm, ici, shared = TABLE.get(row["kind"], (None, None, None, 1))
    if run.is_sparse(device):
        return Peaks(None, None, ici)
    return Peaks(
        flops / shared if flops else row["peak_flops"],
        hbm / shared if hbm else row["peak_hbm_bytes_per_s"],
        ici or row["peak_ici_bytes_per_s"],
    )


def hardware_peaks(run: Run) -> Iterator[Row]:
    """The peaks of every device."""
    for device in run.devices:
        found = peaks(run, device)
        yield {
            "device_id": device,
            "peak_flops_per_s": found.flops,
            "peak_hbm_bytes_per_s": found.hbm,
            "peak_ici_bytes_per_s": found.ici,
        }


def hbm_capacity(run: Run) -> Iterator[Row]:
    """The HBM of a device of the run, the least of its kinds."""
    kinds = {row["kind"] for row in run.devices.values()} & set(GIB)
    if kinds:
        yield {"device_bytes": min(GIB[kind] * 2**30 // TABLE[kind][3] for kind in kinds)}
