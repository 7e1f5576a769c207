"""The table of compiled programs, by rows worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.example import Store
from tests.reports.over_runs import rows_of, run
from xlahouse.reports.charts.panel import fill
from xlahouse.reports.panels.runs import compiled_cells

PROGRAMS = {"prefill": 1, "decode": 2}


def program(run_id: str, phase: str, needed: int, fits: bool | None) -> dict[str, Any]:
    row = {"run_id": run_id, "world": 0, "program_id": PROGRAMS[phase], "phase": phase}
    return row | {"needed_bytes": needed, "device_bytes": 1000, "fits": fits}


def sent(run_id: str, device: int, phase: str, axis: str, wire: float | None) -> dict[str, Any]:
    row = {"run_id": run_id, "device_id": device, "phase": phase, "axis": axis}
    return row | {"kind": "all-reduce", "wire_bytes": wire}


def cost(run_id: str, phase: str, cycles: int) -> dict[str, Any]:
    row = {"run_id": run_id, "world": 0, "program_id": PROGRAMS[phase]}
    return row | {"op": f"f{cycles}", "cycles": cycles}


@pytest.fixture(scope="module")
def store() -> Store:
    """Batch 4 of 16 tokens on tp4, measured and compiled; a server's programs; another without traffic."""
    compiled = {"source": "compiled", "device_count": 2}
    return Store(
        {
            "runs": [
                run("m", "tp4"),
                run("c", "tp4", **compiled),
                run("s", "tp4", prompt_tokens=None, model="server", **compiled),
                run("z", "dp4", model="zero", **compiled),
            ],
            "program_fit_v1": [
                program("m", "decode", 1, True),  # no compiled run
                program("c", "decode", 600, True),
                program("c", "prefill", 1200, False),
                program("s", "prefill", 10, None),
                program("z", "decode", 10, True),
            ],
            "traffic_volume_v1": [
                *(sent("c", device, "decode", "tp", 400) for device in (0, 1)),
                sent("c", 0, "decode", "dp", 40),
                sent("c", 0, "decode", "pp", 8),
                sent("c", 1, "decode", "pp", None),
                sent("c", 0, "prefill", "tp", 6400),
                sent("s", 0, "prefill", "tp", 6400),
            ],
            "compiler_cost_v1": [
                cost("c", "decode", 70),
                cost("c", "decode", 30),
                cost("c", "prefill", 900),
            ],
        }
    )


ALL = ("m", "c", "s", "z")


def test_bytes_a_token_fit_and_cycles(store: Store) -> None:
    """A decode step makes a token of each of 4 sequences, a prefill takes 4 x 16: tp sends 2 x 400 / 4
    and 6400 / 64; what one device sends on pp is not known, nor are the tokens of a server's prefill."""
    rows = rows_of(store, compiled_cells.PANEL, ALL)
    wanted = rows.select("name", "phase", "fits", "token_bytes", "cycles").rows()
    assert wanted == [
        ("name c", "prefill", "no", "tp=100", 900),
        ("name c", "decode", "yes", "dp=10, pp=?, tp=200", 100),
        ("name s", "prefill", "not known", "tp=?", None),
        ("name z", "decode", "yes", "", None),
    ]


def test_the_table_reads_as_people_say_it(store: Store) -> None:
    rows = rows_of(store, compiled_cells.PANEL, ALL)
    section = fill(compiled_cells.PANEL, rows, store.facts())
    assert section.verdict == ["1 program does not fit into the memory of a device."]
    assert compiled_cells.coverage(rows, []) == "4 programs of 3 compiled runs."
    said = compiled_cells.show_axes("dp=10, ep+tp=2000, pp=?").replace("\u00a0", " ")
    assert said == "dp 10 B, ep+tp 2.00 kB, pp not known"
    assert compiled_cells.show_axes("") == "none"


def test_only_sites_with_compiled_runs_have_it(store: Store) -> None:
    facts = store.facts()
    measured = [each for each in facts if each.run_id == "m"]
    assert compiled_cells.PANEL.applies(facts)
    assert not compiled_cells.PANEL.applies(measured)
    assert (
        "compile again"
        in fill(compiled_cells.PANEL, rows_of(store, compiled_cells.PANEL, ("m",)), facts).empty
    )
