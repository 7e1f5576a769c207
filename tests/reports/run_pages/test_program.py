"""The page of a program: what its memory is for, what it holds over its schedule, what costs cycles."""

from __future__ import annotations

import pytest

from tests.reports.example import Store
from tests.reports.sections import filled
from tests.reports.vega_lite import assert_valid, data
from xlahouse.reports.charts.facts import COMPILED_BANNER
from xlahouse.reports.panels.communication import volume
from xlahouse.reports.panels.program import cost, fit, held
from xlahouse.reports.panels.time import time_split
from xlahouse.reports.site import render_site

GIB = 2**30
DEVICES = [
    {"run_id": "r", "device_id": n, "logical_id": n, "world": 0, "traced": False,
     "kind": "TPU v6 lite", "core": "tensorcore"}
    for n in range(2)
]  # fmt: skip
PROGRAM = {"run_id": "r", "world": 0, "program_id": 7, "module": "m", "source": "compiled"}


def buffer(allocation, kind, size, first, last, scope=None):
    return {
        "run_id": "r", "world": 0, "program_id": 7, "module": "m", "buffer": allocation,
        "allocation": allocation, "kind": kind, "is_output": False, "memory_space": 0,
        "bytes": size, "allocation_bytes": size, "first_use": first, "last_use": last,
        "scope": scope, "op": f"op.{allocation}",
    }  # fmt: skip


def store(source="compiled", temporary=2 * GIB, kind="TPU v6 lite", flops=918 * 10**9):
    """A decode program of 20 GiB of weights and 8 of cache, with a temporary value from place 3 to 5."""
    instructions = [
        {"run_id": "r", "world": 0, "program_id": 7, "module": "m", "op": op, "opcode": "fusion",
         "component": component, "schedule_index": place, "executions": 2,
         "estimated_cycles": cycles, "flops": count, "hbm_bytes": size}
        for place, (op, component, cycles, count, size) in enumerate(
            [("a", "mlp", 300, flops, 0), ("b", None, 100, 0, 0),
             ("c", "head", None, 0, 32 * 10**8), ("d", None, None, 0, 0)]
        )
    ]  # fmt: skip
    collective = {
        **PROGRAM, "op": "ar", "kind": "all-reduce", "group_index": 0, "group_size": 2,
        "payload_bytes": 100, "executions": 6, "phase": "decode", "step": 1,
    }  # fmt: skip
    del collective["source"]
    return Store(
        {
            "runs": [{"run_id": "r", "source": source, "status": "complete"}],
            "devices": [{**each, "kind": kind} for each in DEVICES],
            "programs": [{**PROGRAM, "phase": "decode", "step": 1, "code_bytes": GIB}],
            "buffers": [
                buffer(0, "argument", 20 * GIB, 0, 9, "model.w/xla__device_data"),
                buffer(1, "argument", 8 * GIB, 0, 9, "xlahouse.cache.0.key.3/xla__device_data"),
                buffer(2, "temporary", temporary, 3, 5),
            ],
            "instructions": instructions,
            "program_collectives": [{**collective, "device_id": n} for n in range(2)],
            "replica_groups": [
                {"run_id": "r", "world": 0, "program_id": 7, "op": "ar", "group_index": 0,
                 "position": n, "logical_id": n, "device_id": n}
                for n in range(2)
            ],
        }
    )  # fmt: skip


def plain(sentences):
    return [sentence.replace("\u00a0", " ") for sentence in sentences]


def test_memory_by_what_it_is_for():
    """20 + 8 + 2 + 1 = 31 of 32 GiB, 33.3 of 34.4 GB: 96.9 %."""
    section = filled(store(), fit.PANEL, "r")
    assert_valid(section)
    (figure,) = section.figures
    assert [(bar["part"], bar["bytes"] / GIB) for bar in data(figure.spec)] == [
        ("weights", 20),
        ("KV cache", 8),
        ("temporary values", 2),
        ("program code", 1),
        ("inputs, results, constants", 0),
    ]
    assert plain(section.notes) == [
        "The decode needs 33.3 GB of the 34.4 GB of a device, 96.9 %: it fits.",
        "Both programs share weights and cache.",
    ]
    assert section.coverage == "1 program by the compiler's own assignment."


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"temporary": 4 * GIB}, "it does not fit. Lower the batch, or take a larger slice."),
        ({"kind": "TPU v99"}, "Whether it fits is not known: the table of chips lacks this kind."),
    ],
)
def test_what_does_not_fit_and_what_is_not_known(change, note):
    assert plain(filled(store(**change), fit.PANEL, "r").notes)[0].endswith(note)


def test_memory_over_the_program():
    """28 GiB throughout, 30 from place 3 to 5; after place 9 the program has ended."""
    section = filled(store(), held.PANEL, "r")
    assert_valid(section)
    points = [
        (row["schedule_index"], row["in_use_bytes"] / GIB) for row in data(section.figures[0].spec)
    ]
    assert points == [(0, 28), (3, 30), (6, 28)]
    assert plain(section.notes) == ["decode: most is held from d on, 32.2 GB."]


def test_a_measured_program_is_named_by_its_phases_and_each_has_its_own_line():
    """Two worlds have a program 7 of one name: their launches, and then their numbers, tell them apart."""
    tables = {
        "runs": [{"run_id": "r", "source": "measured", "status": "complete"}],
        "devices": [{**DEVICES[n], "world": n, "traced": True} for n in range(2)],
        "programs": [{**PROGRAM, "world": n, "source": "trace"} for n in range(2)],
        "buffers": [
            {**buffer(0, "argument", (2 - n) * GIB, 0, 4), "world": n} for n in range(2)
        ],
        "launches": [
            {"run_id": "r", "device_id": n, "launch": at, "program_id": 7, "phase": phase}
            for n, phases in enumerate([("warmup", "prefill"), ("decode", "decode")])
            for at, phase in enumerate(phases)
        ],
    }  # fmt: skip
    notes = plain(filled(Store(tables), held.PANEL, "r").notes)
    assert notes == [
        "m, prefill: most is held, 2.15 GB.",
        "m, decode: most is held, 1.07 GB.",
    ]
    del tables["launches"]
    notes = plain(filled(Store(tables), held.PANEL, "r").notes)
    assert [note.partition(": ")[0] for note in notes] == [
        "m, program 7 of world 0",
        "m, program 7 of world 1",
    ]


def test_the_most_expensive_instructions():
    """Two executions each: 600 and 200 of 800 cycles; 1,836 GFLOP at 918 TFLOP/s, 6.4 GB at 1.6 TB/s."""
    section = filled(store(), cost.PANEL, "r")
    assert_valid(section)
    bars = [row for row in data(section.figures[0].spec) if "cycles" in row]
    assert [(bar["name"], bar["component"], bar["cycles"]) for bar in bars] == [
        ("decode: a", "mlp", 600),
        ("decode: b", "no component", 200),
    ]
    assert plain(section.notes)[1:] == [
        "The listed instructions have 100 % of the cycles of decode.",
        "At the chip's peaks decode takes at least 2.00 ms of math and 4.00 ms of HBM"
        " traffic, copies to VMEM included.",
    ]
    assert plain(filled(store(flops=0), cost.PANEL, "r").notes)[-1] == (
        "At the chip's peaks decode takes at least 4.00 ms of HBM traffic, copies to VMEM included;"
        " it has no math."
    )


def test_bytes_have_rows_and_times_have_the_reason():
    """Six rounds on each of two devices."""
    volumes = filled(store(), volume.PANEL, "r")
    assert volumes.coverage.startswith("Counts 12 collectives of the programs.")
    split = filled(store(), time_split.PANEL, "r")
    assert split.figures == []
    assert split.empty.startswith("The programs were compiled and did not run, so")


def test_pages_say_that_nothing_ran(tmp_path):
    site = render_site(store(), tmp_path, pages=["overview", "program"])
    for path in site.pages:
        text = path.read_text("utf-8")
        assert COMPILED_BANNER.format(steps="one decode step") in text
        assert "One decode step, compiled for 2 devices" in text
        assert "no device events" not in text


def test_a_measured_run_says_where_its_needs_are_known():
    section = filled(Store({"runs": [{"run_id": "r"}], "devices": DEVICES}), fit.PANEL, "r")
    assert "`xlahouse compile` of the same plan does" in section.empty
