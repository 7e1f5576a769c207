"""The traffic matrix where something is not known, and where devices are many."""

from __future__ import annotations

from tests.reports.example import Store
from tests.reports.sections import filled
from tests.reports.vega_lite import data, drawn
from xlahouse.reports.charts.palette import UNKNOWN_COLOUR
from xlahouse.reports.panels.communication import matrix


def store_of(count, pairs, *chosen):
    """Device 0 to `count` - 1, and bytes from one to another; `chosen` as compiled: a reason is last."""
    devices = [
        {"run_id": "r", "device_id": d, "traced": True, "core": "tensorcore"} for d in range(count)
    ]
    cell = {
        "run_id": "r",
        "phase": "decode",
        "axis": "ep",
        "kind": "all-to-all",
        "algorithm": "ring",
    }
    cells = [
        {**cell, "source_device_id": a, "target_device_id": b, "bytes": size}
        for a, b, size in pairs
    ]
    cells += [
        {**cell, "algorithm": "compiled", "source_device_id": a, "target_device_id": b}
        | {"bytes": size, "target_problem": reason}
        for a, b, size, reason in chosen
    ]
    return Store({"runs": [{"run_id": "r"}], "devices": devices, "traffic_matrix_v1": cells})


def test_cells_of_unknown_bytes_are_drawn_grey():
    section = filled(store_of(2, [(0, 1, None), (1, 0, 8.0)]), matrix.PANEL, "r")
    assert drawn(section.figures[0].spec).count(f'fill="{UNKNOWN_COLOUR}"') == 1
    assert any(note.startswith("Grey cells: ") for note in section.notes)


def test_sixteen_devices_are_a_square_and_more_take_half_the_page():
    shapes = []
    for count in (16, 17):
        section = filled(store_of(count, [(0, 1, 8.0)]), matrix.PANEL, "r")
        shapes.append(section.figures[0].shape)
    assert shapes == ["square", "half"]


def test_256_devices_share_64_rows():
    ring = [(d, (d + 1) % 256, 1.0) for d in range(256)]
    section = filled(store_of(256, ring), matrix.PANEL, "r")
    cells = {(row["source"], row["target"]): row["bytes"] for row in data(section.figures[0].spec)}
    # Four devices a cell: three send within it, the last to the next cell.
    assert (cells["0-3", "0-3"], cells["0-3", "4-7"], cells["252-255", "0-3"]) == (3, 1, 1)
    assert len(cells) == 128
    assert section.coverage.startswith("Draws 256\u00a0B from 64 groups of sources.")


def test_the_compilers_choice_is_a_map_of_its_own():
    reason = "the order of StrategyRing is not known here"
    other = "the compiler does not state the way of a transfer"
    chosen = [(0, 1, 3.0, None), (1, 0, 3.0, None), (0, None, 5.0, reason), (1, None, 2.0, other)]
    section = filled(store_of(2, [(0, 1, 8.0), (1, 0, 3.0)], *chosen), matrix.PANEL, "r")
    maps = {figure.title: [row["bytes"] for row in data(figure.spec)] for figure in section.figures}
    assert maps == {"All traffic (axis ep)": [8, 3], "All traffic, as the compiler chose": [3, 3]}
    assert section.coverage.replace("\u00a0", " ") == "Draws 11 B from 2 sources."
    assert section.notes[-1].replace("\u00a0", " ") == (
        f"As the compiler chose: the targets of 7 B of 13 B are not known: {reason}, or {other}."
    )
