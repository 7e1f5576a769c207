"""What only the whole warehouse shows is a warning of `xlahouse check`: whose, what, what it costs."""

from __future__ import annotations

from typing import Any

from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse
from xlahouse.sql.check.check import check_warehouse
from xlahouse.sql.check.findings import view_findings

CLOCKED = [
    {"device_id": 0, "clock": "a", "traced": True},
    {"device_id": 1, "clock": "b", "traced": True},
]
CLOCKS = [
    {"clock": "a", "reference": "a", "state": "reference"},
    {"clock": "b", "reference": "a", "state": "aligned", "spread_ps": 7},
    {"clock": "c", "reference": "a", "state": "ambiguous"},
]
MARKER = {"source": "marker", "host": "a", "phase": "decode", "request": 0, "step": 1}


def meeting(instance: int, device: int, arrival_ps: int, end_ps: int) -> dict[str, Any]:
    """A device's part in an all-reduce."""
    kind = {"kind": "all-reduce", "is_async": False, "instance": instance, "device_id": device}
    return kind | {"arrival_ps": arrival_ps, "start_ps": 50, "duration_ps": end_ps - 50}


PLACE = {"world": 0}
MEMBER = {"world": 0, "program_id": 7, "op": "x", "group_index": 0}
MOVED = {"device_id": 0, "program_id": 7, "kind": "all-gather", "group_size": 2}

# Skews of the two instances: 3 and 6, median 3 + 3 // 2 = 4, and b is known to within 7.
SPREAD = [
    meeting(1, 0, 10, 70),
    meeting(1, 1, 13, 70),
    meeting(2, 0, 10, 70),
    meeting(2, 1, 16, 77),
]


# What a run has, and how the line of the one finding on it begins.
FOUND: list[tuple[dict[str, list[dict[str, Any]]], str]] = [
    (
        {
            "launches": [
                {"device_id": 0, "launch": k, "enqueue_ps": enqueue, "start_ps": 100 * k}
                | {"duration_ps": 5, "phase": phase}
                for k, (enqueue, phase) in enumerate(
                    [(1, "prefill"), (100, "decode"), (150, "decode"), (None, "decode")]
                )
            ]
        },
        "starts_before_enqueue: 1 of 3 linked launches start before the host enqueues them; ",
    ),
    (
        {
            # Ends of the launches before: 10, 40 and 70. Steps 1 and 3 are sent after them, step 2
            # before. On device 1, which is not a TPU, and for the prefill it does not matter.
            "devices": [
                {"device_id": 0, "core": "tensorcore", "inferred": False, "kind": "TPU v6e"},
                {"device_id": 1, "core": "cpu", "inferred": True, "kind": "cpu"},
            ],
            "launches": [
                {"device_id": device, "launch": k, "start_ps": start, "duration_ps": 10}
                | {"enqueue_ps": enqueue, "phase": phase, "request": 0, "step": k}
                for device in (0, 1)
                for k, (enqueue, start, phase) in enumerate(
                    [
                        (0, 0, "prefill"),
                        (20, 30, "decode"),
                        (35, 60, "decode"),
                        (75, 80, "decode"),
                    ]
                )
            ],
        },
        "waits_for_host: the devices waited for the host before 66.7 % of 3 decode steps; ",
    ),
    (
        {
            "phases": [MARKER | {"start_ps": 0, "duration_ps": 10}],
            "host_events": [
                {
                    "host": "a",
                    "name": "backend_compile",
                    "start_ps": start,
                    "duration_ps": 10**12,
                }
                for start in (-(2 * 10**12), 5)
            ],
        },
        "recompiles: 1 compiles after warm-up; ",
    ),
    (
        # Of a period of 100 us, 60 lie before launch 1: 45 in Python, 14.5 enqueue, 0.5 wait.
        {
            "launches": [{"device_id": 0, "launch": 1, "phase": "decode"}],
            "device_steps": [
                {"device_id": 0, "request": 0, "step": s, "phase": "decode"}
                | {"start_ps": start, "duration_ps": 20 * 10**6}
                for s, start in ((1, 0), (2, 80 * 10**6))
            ],
            "host_gaps": [
                {"device_id": 0, "launch": 1, "start_ps": 20 * 10**6, "duration_ps": 60 * 10**6}
                | {"name": name, "self_ps": own * 10**5}
                for name, own in (("Execute", 145), ("$f", 450), ("Await", 5))
            ],
        },
        "host_late: 60.0 % of the time of phase decode passes between launches, 60.0 us before each:"
        " python 75.0 %, enqueue 24.0 %; ",
    ),
    (
        {
            # 2 x 2 chips of two links each; two send 1800 bytes each: 3600 / (4 x 9e10) = 10,000 ps.
            "devices": [
                PLACE | {"device_id": k, "logical_id": k, "kind": "TPU v6e"} for k in range(4)
            ],
            "replica_groups": [MEMBER | {"position": k, "device_id": k} for k in range(2)],
            "collectives": [
                MOVED
                | {"op": "x", "kind": "all-reduce", "group_index": 0, "payload_bytes": 1800}
                | {"instance": k, "start_ps": 10**6 * k, "duration_ps": duration}
                | {"is_async": False}
                for k, duration in enumerate([5000, 20000])
            ],
        },
        "impossible_rate: 1 of 2 transfers (all-reduce over unclassified) are more than 2 % shorter"
        " than the links of their chips allow together, by a factor of up to 2.0; ",
    ),
    (
        {"devices": CLOCKED, "clocks": CLOCKS, "collectives": SPREAD},
        "clocks_spread: the clock b is known to within 7 ps of a, but skews are only 4; ",
    ),
    (
        {
            "runs": [{"run_id": "r", "name": "mine", "mesh": [{"axis": "tp", "size": 2}]}],
            "devices": [PLACE | {"device_id": k, "logical_id": k} for k in range(2)],
            "replica_groups": [
                MEMBER | {"position": 0, "device_id": 0},
                MEMBER | {"position": 1, "device_id": 1},
            ],
            # 30 of 40 bytes are of an op whose group nothing names.
            "collectives": [
                MOVED | {"instance": 1, "op": "x", "group_index": 0, "payload_bytes": 10},
                MOVED | {"instance": 2, "op": "y", "payload_bytes": 30},
            ],
        },
        "unclassified_traffic: 75.0 % of the known payload has no known axis; ",
    ),
    (
        {
            "devices": [{"device_id": 0, "core": "tensorcore", "inferred": False, "kind": "TPU"}],
            "collectives": [MOVED | {"instance": 1, "op": "x"}],
        },
        "links_unknown: the kind of a device is not known; ",
    ),
    (
        # TTFT is 6 ms less than the host's, of which 5 % are 5.3; TPOT 2.5 less, of which 5 % are 2.6.
        {
            "runs": [
                {
                    "output_tokens": 2,
                    "measured_ttft_s": 0.106,
                    "measured_tpot_s": 0.0525,
                    "host_count": 1,
                }
            ],
            "devices": [{"device_id": 0, "core": "tensorcore", "inferred": False}],
            "phases": [
                MARKER | {"phase": phase, "step": step, "start_ps": start, "duration_ps": 10**9}
                for step, (phase, start) in enumerate([("prefill", 0), ("decode", 100 * 10**9)])
            ],
            "device_steps": [
                {"device_id": 0, "phase": phase, "request": 0, "step": step, "start_ps": start}
                | {"duration_ps": end - start, "pass_end_ps": end}
                for step, (phase, start, end) in enumerate(
                    [("prefill", 10**9, 100 * 10**9), ("decode", 101 * 10**9, 150 * 10**9)]
                )
            ],
        },
        "host_clock_differs: TTFT is 100.0 ms by the ends of ops, and 106.0 ms by the clock of the host; ",
    ),
]


def test_a_finding_is_a_warning(tmp_path):
    """Each is one run's of a warehouse of all, and about no other run."""
    rows: dict[str, list[dict[str, Any]]] = {"runs": [{"run_id": "q", "name": "other"}]}
    for k, (tables, _) in enumerate(FOUND):
        own = {"run_id": f"r{k}", "name": f"mine {k}"}
        for name, given in ({"runs": [{}]} | tables).items():
            mine = [{**row, **(own if name == "runs" else {"run_id": f"r{k}"})} for row in given]
            rows.setdefault(name, []).extend(mine)
    with Warehouse(write_warehouse(tmp_path / "warehouse", rows)) as warehouse:
        found = view_findings(warehouse)
    assert len(found) == len(FOUND)
    for k, (_, expected) in enumerate(FOUND):
        (line,) = (line for line in found if line.startswith(f"mine {k}: "))
        assert line.startswith(f"mine {k}: {expected}")


def test_check_tells_them(tmp_path):
    early = {"device_id": 0, "launch": 0, "enqueue_ps": 6, "start_ps": 5, "duration_ps": 5}
    with Warehouse(write_warehouse(tmp_path / "warehouse", {"launches": [early]})) as warehouse:
        (found,) = view_findings(warehouse)
        report = check_warehouse(warehouse)
    assert (report.lines, report.errors, report.warnings) == ((f"warning  {found}",), 0, 1)


def test_virtual_devices_and_groups_of_one_have_no_links_to_know(tmp_path):
    tables = {
        "devices": [
            {"run_id": "r", "device_id": 0, "core": "cpu", "inferred": True, "kind": "cpu"},
            {"run_id": "q", "device_id": 0, "core": "tensorcore", "inferred": False},
        ],
        "collectives": [
            MOVED | {"run_id": "r", "instance": 1, "op": "x"},
            MOVED | {"run_id": "q", "instance": 1, "op": "x", "group_size": 1},
        ],
    }
    with Warehouse(write_warehouse(tmp_path / "warehouse", tables)) as warehouse:
        assert view_findings(warehouse) == []


def test_nothing_is_found_where_nothing_is_wrong(tmp_path):
    """A start at its enqueue, a compile before the first step, a spread as large as the skew."""
    tables = {
        "devices": CLOCKED,
        "clocks": [CLOCKS[0], CLOCKS[1] | {"spread_ps": 8}],  # skews 7 and 9: median 8
        "launches": [
            {"device_id": 0, "launch": 0, "enqueue_ps": 5, "start_ps": 5, "duration_ps": 5}
        ],
        "phases": [MARKER | {"start_ps": 20, "duration_ps": 10}],
        "host_events": [{"host": "a", "name": "XlaCompile", "start_ps": 0, "duration_ps": 30}],
        "collectives": [
            *(meeting(1, 0, 10, 70), meeting(1, 1, 17, 70)),
            *(meeting(2, 0, 10, 70), meeting(2, 1, 19, 77)),
        ],
    }
    with Warehouse(write_warehouse(tmp_path / "warehouse", tables)) as warehouse:
        assert view_findings(warehouse) == []


def test_a_run_whose_files_are_in_a_larger_one_too_is_found(tmp_path):
    """`r` was ingested before its folder had grown to `q`; empty files are alike in all runs."""

    def files(*contents):
        return [{"path": c, "bytes": len(c), "sha256": f"of {c}"} for c in contents]

    runs = [
        {"run_id": "r", "name": "mine", "source_files": files("one", "two", "")},
        {"run_id": "q", "name": "grown", "source_files": files("one", "two", "three", "")},
        {"run_id": "p", "name": "apart", "source_files": files("four", "")},
        {"run_id": "o", "name": "without"},
    ]
    with Warehouse(write_warehouse(tmp_path / "warehouse", {"runs": runs})) as warehouse:
        (found,) = view_findings(warehouse)
    assert found.startswith("mine: files_in_two_runs: 2 of its 2 files are in run q too; ")
