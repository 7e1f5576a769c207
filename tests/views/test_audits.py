"""The audits find nothing in sound rows, and each finds the fault it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kept import audited
from tests.samples import sample
from tests.views.given_expect import cases_of
from tests.views.together import write_together
from tests.warehouse import write_warehouse
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql import Warehouse
from xlahouse.sql.check.audits import AUDITS, run_audits
from xlahouse.sql.check.audits_traffic import TRAFFIC_AUDITS

COLLECTIVE = {
    "device_id": 0,
    "program_id": 7,
    "op": "x",
    "kind": "all-gather",
    "instance": 1,
    "group_index": 0,
    "group_size": 2,
    "payload_bytes": 8,
}
PARTS = (
    "compute_ps", "collective_ps", "overlapped_ps", "copy_ps", "exposed_copy_ps", "sync_wait_ps",
)  # fmt: skip
STEP = {"device_id": 0, "request": 0, "step": 0, "category": "compute"}

FAULTS: dict[str, dict[str, list[dict[str, Any]]]] = {
    "coverage_adds_up": {"coverage": [{"events_read": 5, "rows_written": 3, "events_rejected": 1}]},
    # Two buffers of 60 at once in an allocation of 100.
    "program_memory_adds_up": {
        "buffers": [
            {
                "world": 0,
                "program_id": 7,
                "buffer": number,
                "allocation": 0,
                "kind": "temporary",
                "is_output": False,
                "memory_space": 0,
                "bytes": 60,
                "allocation_bytes": 100,
                "first_use": 0,
                "last_use": 1,
            }
            for number in range(2)
        ]
    },
    # A pair that is listed twice sends twice.
    "matrix_adds_up": {
        "devices": [{"device_id": 0, "world": 0}, {"device_id": 1, "world": 0}],
        "collectives": [{**COLLECTIVE, "kind": "collective-permute"}],
        "permute_pairs": [
            {
                "world": 0,
                "program_id": 7,
                "op": "x",
                "source_device_id": 0,
                "target_device_id": target,
            }
            for target in (1, 2)
        ],
    },
    # Two rows of one device make its collectives count twice.
    "volume_holds_every_collective": {
        "devices": [{"device_id": 0, "world": 0}, {"device_id": 0, "world": 1}],
        "collectives": [COLLECTIVE],
    },
    "busy_intervals_are_merged": {
        "busy_intervals": [
            {**STEP, "start_ps": 0, "duration_ps": 10},
            {**STEP, "start_ps": 9, "duration_ps": 10},
        ]
    },
    # Compute from 0 to 12; a barrier of 5; a copy of 7; a collective in flight from 20 to 30, of which
    # 8 is kept.
    "busy_intervals_hold_ops": {
        "ops": [
            {**STEP, "start_ps": 0, "duration_ps": 10},
            {**STEP, "start_ps": 2, "duration_ps": 3},
            {**STEP, "start_ps": 8, "duration_ps": 4},
            {**STEP, "category": "wait", "op": "barrier-cores", "start_ps": 0, "duration_ps": 5},
            {**STEP, "category": "copy", "start_ps": 0, "duration_ps": 7},
            {**STEP, "category": "collective", "start_ps": 20, "duration_ps": 1},
        ],
        "collectives": [{**COLLECTIVE, "request": 0, "step": 0, "start_ps": 20, "duration_ps": 10}],
        "busy_intervals": [
            {**STEP, "start_ps": 0, "duration_ps": 12},
            {**STEP, "category": "sync_wait", "start_ps": 0, "duration_ps": 5},
            {**STEP, "category": "copy_running", "start_ps": 0, "duration_ps": 7},
            {**STEP, "category": "collective", "start_ps": 20, "duration_ps": 8},
        ],
    },
    # A collective from 0 to 10 alone, of which the step says that compute hides 4.
    "exposed_time_has_owners": {
        "devices": [{"device_id": 0, "world": 0}],
        "busy_intervals": [{**STEP, "category": "collective", "start_ps": 0, "duration_ps": 10}],
        "collectives": [{**COLLECTIVE, "request": 0, "step": 0, "start_ps": 0, "duration_ps": 10}],
        "device_steps": [
            {
                "device_id": 0,
                "request": 0,
                "step": 0,
                "start_ps": 0,
                "duration_ps": 10,
                "compute_ps": 4,
                "collective_ps": 10,
                "overlapped_ps": 4,
            }
        ],
    },
    # Compute from 0 to 6, a collective from 4 to 9: 2 of its 5 overlap, and all is said to be exposed.
    "device_steps_hold_intervals": {
        "ops": [
            {**STEP, "start_ps": 0, "duration_ps": 6},
            {**STEP, "category": "collective", "start_ps": 4, "duration_ps": 5},
        ],
        "busy_intervals": [
            {**STEP, "start_ps": 0, "duration_ps": 6},
            {**STEP, "category": "collective", "start_ps": 4, "duration_ps": 5},
        ],
        "device_steps": [
            {
                "device_id": 0,
                "request": 0,
                "step": 0,
                "start_ps": 0,
                "duration_ps": 9,
                "compute_ps": 6,
                "collective_ps": 5,
                "overlapped_ps": 0,
                "copy_ps": 0,
                "exposed_copy_ps": 0,
                "sync_wait_ps": 0,
            }
        ],
    },
    # Busy from 0 to 5 and from 8 to 13: 3 idle before the second stretch, and 2 are said.
    "stretches_fill_their_steps": {
        "ops": [
            {**STEP, "start_ps": 0, "duration_ps": 5},
            {**STEP, "start_ps": 8, "duration_ps": 5},
        ],
        "busy_intervals": [
            {**STEP, "start_ps": 0, "duration_ps": 5},
            {**STEP, "start_ps": 8, "duration_ps": 5},
        ],
        "busy_stretches": [
            {"device_id": 0, "request": 0, "step": 0, "start_ps": s, "duration_ps": 5, "idle_ps": i}
            for s, i in ((0, 0), (8, 2))
        ],
    },
    # Compute from 0 to 5, of which its op has 4.
    "attributed_times_add_up": {
        "ops": [{**STEP, "start_ps": 0, "duration_ps": 5, "attributed_ps": 4}],
        "busy_intervals": [{**STEP, "start_ps": 0, "duration_ps": 5}],
    },
    # One op in a step of 5, of which it has 4.
    "parts_of_periods_add_up": {
        "ops": [{**STEP, "start_ps": 0, "duration_ps": 5, "attributed_ps": 4}],
        "busy_intervals": [{**STEP, "start_ps": 0, "duration_ps": 5}],
    },
    # A gap of 100, of which two events have 60 and 30 themselves, and no row has the rest.
    "host_gaps_add_up": {
        "host_gaps": [
            {"device_id": 0, "start_ps": 5, "duration_ps": 100, "overlap_ps": 60, "self_ps": own}
            for own in (60, 30)
        ]
    },
    "self_time_fits_its_line": {
        "ops": [{**STEP, "line": "XLA Ops", "start_ps": 0, "duration_ps": 5, "self_ps": 6}]
    },
    # Two rows of one device make its steps count twice, and their gaps once more.
    "idle_has_causes": {
        "devices": [{"device_id": 0}, {"device_id": 0}],
        "ops": [
            {**STEP, "start_ps": 0, "duration_ps": 5},
            {**STEP, "start_ps": 8, "duration_ps": 5},
        ],
        "busy_intervals": [
            {**STEP, "start_ps": 0, "duration_ps": 5},
            {**STEP, "start_ps": 8, "duration_ps": 5},
        ],
    },
    # Two rows of one device make each of its periods count twice.
    "periods_add_up": {
        "devices": [{"device_id": 0}, {"device_id": 0}],
        "ops": [{**STEP, "start_ps": 0, "duration_ps": 5}],
    },
    # Two windows that overlap, of a device whose ingest did not cut the first: the period is too short.
    "idle_shares_are_shares": {
        "device_steps": [
            {"device_id": 0, "request": 0, "step": step, "start_ps": start, "duration_ps": length}
            | dict.fromkeys(PARTS, 0)
            for step, start, length in ((0, 0, 10), (1, 5, 3))
        ],
    },
    # Two rows of one device make its ops count twice.
    "roofline_holds_every_op": {
        "devices": [{"device_id": 0, "kind": "TPU v4"}, {"device_id": 0, "kind": "TPU v5e"}],
        "ops": [{**STEP, "program_id": 7, "op": "x", "start_ps": 0, "duration_ps": 5}],
    },
    # Two rows of one device make its windows count twice, in one of the views once more.
    "mfu_takes_every_window": {
        "devices": [{"device_id": 0}, {"device_id": 0}],
        "ops": [{**STEP, "start_ps": 0, "duration_ps": 5, "self_ps": 5}],
    },
    # A decode step of 2 x (20 + 5) + 2 FLOPs in one ps of a device that does one.
    "mfu_is_a_share": {
        "runs": [
            {"run_id": "r", "expected_device_count": 1, "batch_size": 1, "prompt_tokens": 1}
            | {"attention_pair_flops": 1, "whole_weights": 10, "tensor_weights": 20}
            | {"expert_weights": 0, "head_weights": 5}
        ],
        "run_settings": [{"peaks": {"bf16_flops": 1e12}}],
        "devices": [{"device_id": 0, "kind": "X"}],
        "ops": [{**STEP, "step": 1, "phase": "decode", "start_ps": 0, "duration_ps": 1}],
    },
    "instances_fit_their_group": {"collectives": [COLLECTIVE, COLLECTIVE]},
    "times_run_forward": {"launches": [{"device_id": 0, "start_ps": 5, "duration_ps": -1}]},
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(name: str, tmp_path: Path) -> None:
    (audit,) = (audit for audit in AUDITS if audit.name == name)
    with Warehouse(write_warehouse(tmp_path, FAULTS[name])) as warehouse:
        assert len(run_audits(warehouse, [audit])) == 1


@pytest.mark.parametrize(
    ("plane", "line", "is_async"),
    [
        ("/device:GPU:0", "Stream #14", False),
        ("/device:TPU:0 SparseCore 0", "Sparse Core Ops", True),
    ],
)
def test_ops_of_a_line_may_overlap(plane: str, line: str, is_async: bool, tmp_path: Path) -> None:
    """Two ops of 10 at once, of two streams with one row of coverage or of a SparseCore."""
    op = {"device_id": 0, "line": line, "start_ps": 0, "duration_ps": 10, "self_ps": 10}
    tables = {
        "devices": [{"run_id": "r", "plane": plane, "device_id": 0, "traced": True}],
        "coverage": [{"run_id": "r", "plane": plane, "line": line, "events_read": 2}],
        "ops": [{**op, "is_async": is_async}] * 2,
    }
    (audit,) = (audit for audit in AUDITS if audit.name == "self_time_fits_its_line")
    with Warehouse(write_warehouse(tmp_path, tables)) as warehouse:
        assert run_audits(warehouse, [audit]) == []


@pytest.mark.parametrize("own", [-1, 11])
def test_a_self_time_beyond_its_op_is_found(own: int, tmp_path: Path) -> None:
    """Beside an op that leaves enough time on the line."""
    line = {"device_id": 0, "line": "XLA Ops", "duration_ps": 10}
    ops = [{**line, "start_ps": 0, "self_ps": own}, {**line, "start_ps": 90, "self_ps": 10}]
    (audit,) = (audit for audit in AUDITS if audit.name == "self_time_fits_its_line")
    with Warehouse(write_warehouse(tmp_path, {"ops": ops})) as warehouse:
        assert len(run_audits(warehouse, [audit])) == 1


def test_a_device_without_steps_beside_one_with_steps_is_sound(tmp_path: Path) -> None:
    """Kernels outside every step: no row of step_time, load_balance, comm_compute or mfu is theirs."""
    told = {"category": "compute", "start_ps": 0, "duration_ps": 10, "self_ps": 10}
    ops = [{"device_id": 0, "phase": "decode", "step": 0, **told}, {"device_id": 1, **told}]
    tables = {
        "devices": [{"device_id": d, "core": "gpu", "traced": True} for d in (0, 1)],
        "ops": ops,
        "busy_intervals": [{k: op[k] for k in op if k not in ("self_ps", "phase")} for op in ops],
    }
    with Warehouse(write_warehouse(tmp_path, tables)) as warehouse:
        assert audited(warehouse) == []


# device_time takes idle as the remainder; the others sum one relation in several ways. Rows cannot break
# these, a change to the views can.
BY_CONSTRUCTION = {
    "window_adds_up",
    "breakdowns_hold_self_time",
    "setups_hold_every_run",
    "steps_hold_every_window",
    "latency_adds_up",
    "percentiles_are_ordered",
    "shares_are_parts",
    "scheduling_holds_every_launch",
    *(audit.name for audit in TRAFFIC_AUDITS),  # tests/views/test_audits_traffic.py
}


def test_every_audit_has_a_fault_but_identities_by_construction() -> None:
    assert {audit.name for audit in AUDITS} - set(FAULTS) == BY_CONSTRUCTION


def test_only_the_category_at_fault_is_found(tmp_path: Path) -> None:
    with Warehouse(write_warehouse(tmp_path, FAULTS["busy_intervals_hold_ops"])) as warehouse:
        audits = [audit for audit in AUDITS if audit.name == "busy_intervals_hold_ops"]
        (finding,) = run_audits(warehouse, audits)
    assert finding.rows == 1
    assert "category=collective, busy_ps=10, kept_ps=8" in finding.example


SAMPLES = (
    "tpu/v6e_4dev_jax_psum_offload.xplane.pb",
    "cpu/torch_xla_mlp_4dev.xplane.pb",
    "tpu/vllm_qwen3_tp2.trace.json.gz",
    "gpu/mi300_jax_gemm.xplane.pb",
    "gpu/mi300_jax_conv.xplane.pb",
    "cpu/torch_xla_mlp_4dev.trace.json.gz",
    "kineto/amd_minitoy.json.gz",
    "kineto/cpu_only_base_time.json.gz",
    "kineto/large_integer.json.gz",
    "kineto/sampled_rank1.json.gz",
)


@pytest.mark.verify
def test_audits_find_nothing_in_the_samples(tmp_path: Path) -> None:
    ingest_paths([str(sample(name)) for name in SAMPLES], str(tmp_path))
    with Warehouse(tmp_path) as warehouse:
        assert len(warehouse.runs()) == len(SAMPLES)
        assert audited(warehouse) == []


@pytest.mark.verify
def test_audits_find_nothing_in_the_cases(tmp_path: Path) -> None:
    cases = Path(__file__).parents[1] / "cases"
    folders = [
        path
        for kind in ("transfers", "foreign", "clocks")
        for path in sorted((cases / kind).iterdir())
        if not path.name.endswith("_hlo")
    ]
    ingest_paths([str(path) for path in folders], str(tmp_path))
    with Warehouse(tmp_path) as warehouse:
        assert len(warehouse.runs()) >= len(folders) - 1  # an archive is the same run twice
        assert audited(warehouse) == []


def test_matrix_cases_add_up(tmp_path: Path) -> None:
    """The cases are runs of one warehouse; a row found names its case's run."""
    (matrix,) = (audit for audit in AUDITS if audit.name == "matrix_adds_up")
    with Warehouse(write_together(tmp_path, cases_of("traffic_matrix_v1"))) as warehouse:
        assert warehouse.query(matrix.sql).rows == []
