"""Memory of a run: the most that allocators and programs hold, of a device's HBM, by hand."""

from __future__ import annotations

from tests.reports.example import Store
from tests.reports.sections import filled, rows_of
from xlahouse.reports.panels.overview import memory

GIB = 1024**3


def store_of(kind="TPU v6e", **tables):
    device = {"run_id": "r", "device_id": 3, "traced": True, "core": "tensorcore", "kind": kind}
    return Store({"runs": [{"run_id": "r"}], "devices": [device], **tables})


ALLOCATOR = {"run_id": "r", "source": "allocator", "allocator": "TPU_3_hbm", "device_id": 3}
USED = [
    ALLOCATOR | {"in_use_bytes": 2 * GIB, "peak_bytes": 8 * GIB},
    ALLOCATOR | {"in_use_bytes": 1 * GIB, "peak_bytes": 24 * GIB},
    {"run_id": "r", "source": "program", "module": "step", "peak_bytes": 99 * GIB},
]
PROGRAM = {"run_id": "r", "program_id": 7, "module": "step", "memory": "HBM"}
PROGRAMS = [
    PROGRAM | {"total_bytes": 4 * GIB},
    PROGRAM | {"memory": "VMEM", "total_bytes": 9 * GIB},
]


def test_the_most_of_each_against_a_device():
    # A v6e has 32 GiB: 24 of 32 and 4 of 32.
    store = store_of(memory_timeline_v2=USED, program_memory_v1=PROGRAMS)
    rows = rows_of(store, memory.PANEL, "r")
    assert rows.select("source", "name", "device_id", "bytes", "used_ratio").rows() == [
        ("allocator", "TPU_3_hbm", 3, 24 * GIB, 0.75),
        ("program", "step", None, 4 * GIB, 0.125),
    ]
    section = filled(store, memory.PANEL, "r")
    assert section.coverage == "1 allocator, 1 program."


def test_a_kind_that_is_not_known_has_no_share():
    store = store_of("GPU", memory_timeline_v2=[], program_memory_v1=PROGRAMS)
    assert rows_of(store, memory.PANEL, "r")["used_ratio"].to_list() == [None]


def test_without_sources_it_says_what_to_do():
    section = filled(store_of(memory_timeline_v2=[], program_memory_v1=[]), memory.PANEL, "r")
    assert "--hlo-dump" in section.empty
