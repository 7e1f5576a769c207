"""METRICS, Matrix: to whom a device sends as the TPU's compiler chose, of 2 x 2 chips."""

from __future__ import annotations

from tests.views.oracle.drawn import Row
from tests.views.oracle.reading import Run

FLAT = ("TPU v5 lite", "TPU v6 lite")  # kinds whose rings over a box of chips are known
KINDS = ("TPU v4", "TPU v5p", *FLAT)


def is_square(run: Run) -> bool:
    """Four chips of one slice and of one device each, whose numbers are known and place them."""
    cores = [row for device, row in run.devices.items() if not run.is_sparse(device)]
    chips = sorted(row["chip_id"] for row in cores if row["chip_id"] is not None)
    plain = all(row["coords"] is None and not row["inferred"] for row in cores)
    plain = plain and len({row["world"] for row in cores}) == 1
    plain = plain and len({row["slice_index"] for row in cores} - {None}) < 2
    return len(cores) == 4 and chips == [0, 1, 2, 3] and plain and cores[0]["kind"] in KINDS


def states_choices(run: Run) -> bool:
    """Whether the compiler states of any instruction how it transfers."""
    return any(row.get("collective_emitter") for row in run.rows("instructions"))


def chosen(run: Run, row: Row) -> list[int]:
    """Members to which a member sends equal parts; [] where the compiler's choice does not tell."""
    members = run.groups[(*run.op_key(row), row["group_index"])]
    if len(members) == 2:
        return [member for member in members if member not in (None, row["device_id"])]
    chips = {run.devices[m]["chip_id"]: m for m in members if m is not None}
    if not is_square(run) or len(members) != 4 or set(chips) != {0, 1, 2, 3}:
        return []
    named = ("world", "program_id", "op")
    for told in run.rows("instructions"):
        if tuple(told[name] for name in named) != run.op_key(row):
            continue
        if "Short" in told.get("collective_emitter", "Short"):
            return []
        kind = run.devices[row["device_id"]]["kind"]
        one = told["collective_strategy"] == "UniDirection1DRingStrategy" and kind in FLAT
        if (one and told["collective_colors"] == 2) or "ND" in told["collective_strategy"]:
            chip = run.devices[row["device_id"]]["chip_id"]
            return [chips[chip ^ 1], chips[chip ^ 2]]  # along x and along y
    return []
