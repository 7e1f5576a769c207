"""GPUs in a Chrome trace of XLA's: kernels, launches and programs, as the xplane of the same run has them."""

from __future__ import annotations

import json

import polars as pl
import pytest

from tests.ingest.chrome_build import coverage_of, document, event, named, point
from tests.ingest.traces import op_rows, rows
from tests.samples import sample
from tests.synth.chrome import chrome_text
from tests.synth.protos import XSpace
from xlahouse.ingest.chrome.read import read_chrome
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.xplane.read import read_xplane

STREAM, MODULES, OPS = 1, 4, 5
CALLS, WORKER = 583, 77
COPY = "__amd_rocclr_copyBuffer.kd"
LINES = named(1, "/device:GPU:3", t1="Stream #16(Kernel)", t2="Stream #17(MemcpyH2D)",
              t4="XLA Modules - from #16", t5="XLA Ops - from #16")  # fmt: skip
HOST = named(701, "/host:CPU", t583="runtime", t77="py_xla_execute")


def kernel(name, ts, correlation, tid=STREAM, **args):
    return event(name, ts, 2, 1, tid, args={"correlation_id": str(correlation)} | args)


def call(name, ts, correlation, **args):
    return event(name, ts, 1, 701, CALLS, args={"correlation_id": str(correlation)} | args)


def of_op(op, module="jit_f"):
    return {"hlo_op": op, "hlo_module": module}


def execution(ts, dur=9):
    return event("GpuExecutable::ExecuteThunks", ts, dur, 701, WORKER)


def module(name, ts, dur):
    return event(name, ts, dur, 1, MODULES)


RUN = (
    # Two executions of one program, then one of another program of the same name.
    execution(10), call("launch", 11, 1, **of_op("fusion.1")), call("launch", 12, 2, **of_op("ar")),
    execution(30), call("launch", 31, 3, **of_op("fusion.1")), call("launch", 32, 4, **of_op("ar")),
    execution(50), call("launch", 51, 5, **of_op("fusion.1")), call("memcpyHtoDAsync", 52, 6),
    kernel("fusion_kernel", 20, 1, **of_op("fusion.1")),
    kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 25, 2, **of_op("ar")),
    kernel("fusion_kernel", 40, 3, **of_op("fusion.1")),
    kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 45, 4, **of_op("ar")),
    kernel("other_kernel", 60, 5, **of_op("fusion.1")),
    kernel(COPY, 62, 6, tid=2), kernel("memset_kernel", 90, 7),
    module("jit_f(15)", 20, 27), module("jit_f(18446744073709551615)", 60, 4),
    event("fusion.1", 20, 2, 1, OPS),
)  # fmt: skip


def test_kernels_are_ops_of_the_program_that_launched_them():
    (gpu,) = [p for p in read_chrome(document(*LINES, *HOST, *RUN), "f").planes if p.devices]
    columns = ("op", "kernel", "program_id", "module", "hlo_category", "line", "start_ps")
    last = 2**64 - 1
    nccl, stream = "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "Stream #16(Kernel)"
    us = 1_000_000
    assert gpu.ops.select(columns).sort("start_ps").rows() == [
        ("fusion.1", "fusion_kernel", 15, "jit_f", None, stream, 20 * us),
        ("ar", nccl, 15, "jit_f", "all-reduce", stream, 25 * us),
        ("fusion.1", "fusion_kernel", 15, "jit_f", None, stream, 40 * us),
        ("ar", nccl, 15, "jit_f", "all-reduce", stream, 45 * us),
        ("fusion.1", "other_kernel", last, "jit_f", None, stream, 60 * us),
        (COPY, COPY, last, "jit_f", None, "Stream #17(MemcpyH2D)", 62 * us),
        ("memset_kernel", "memset_kernel", None, None, None, stream, 90 * us),
    ]
    launches = gpu.launches.select("program_id", "start_ps", "duration_ps", "enqueue_ps")
    assert launches.rows() == [
        (15, 20 * us, 7 * us, 10 * us),
        (15, 40 * us, 7 * us, 30 * us),
        (last, 60 * us, 4 * us, 50 * us),
    ]
    (device,) = gpu.devices
    assert (device.device_id, device.core, device.plane) == (3, "gpu", "/device:GPU:3")


def test_lines_that_a_profiler_derives_are_told_once():
    sampled = point("C", 5, "power", 1, 1, args={"watts": 300})
    raw = document(*LINES, *HOST, *RUN, sampled, point("i", 6, "mark", 1, STREAM))
    assert {key: found for key, found in coverage_of(raw).items() if "e" in key[0]} == {
        ("Stream #16(Kernel)", "ops"): (6, 6, 0),
        ("Stream #16(Kernel)", "counters"): (1, 1, 0),
        ("Stream #16(Kernel)", "host_events"): (1, 1, 0),
        ("Stream #17(MemcpyH2D)", "ops"): (1, 1, 0),
        ("XLA Modules - from #16", "host_events"): (2, 2, 0),
        ("py_xla_execute", "host_events"): (3, 3, 0),
        ("runtime", "host_events"): (6, 6, 0),
    }
    (gpu,) = [p for p in read_chrome(raw, "f").planes if p.devices]
    assert {i.code: i.count for i in gpu.issues} == {"kernel_without_op": 2, "derived_lines": 3}


@pytest.mark.parametrize("args", ["[]", '"text"', '{"correlation_id":[]}', '{"hlo_op":7}', "null"])
def test_arguments_of_any_kind_leave_the_kernel(args):
    raw = document(*LINES, event("k", 1, 2, 1, STREAM)[:-1] + f', "args": {args}}}')
    (gpu,) = [p for p in read_chrome(raw, "f").planes if p.devices]
    assert gpu.ops.select("op", "program_id", "start_ps").rows() == [("k", None, 1_000_000)]


def test_a_run_of_gpus_has_launches_and_copies(tmp_path):
    path = tmp_path / "h.trace.json"
    path.write_bytes(document(*LINES, *HOST, *RUN))
    ingest_paths([str(path)], str(tmp_path / "w"))
    ops = rows(tmp_path / "w", "ops").sort("start_ps")
    assert ops.select("op", "category", "launch").rows() == [
        ("fusion.1", "compute", 0),
        ("ar", "collective", 0),
        ("fusion.1", "compute", 1),
        ("ar", "collective", 1),
        ("fusion.1", "compute", 2),
        (COPY, "host_transfer", 2),
        ("memset_kernel", "compute", None),
    ]
    found = rows(tmp_path / "w", "collectives")
    assert found.select("kind", "payload_bytes", "is_async").unique().rows() == [
        ("all-reduce", None, False)
    ]
    (device,) = rows(tmp_path / "w", "devices").to_dicts()
    assert (device["core"], device["inferred"]) == ("gpu", False)


@pytest.mark.parametrize("name", ["mi300_jax_conv", "mi300_jax_gemm"])
def test_an_export_has_the_kernels_and_launches_of_its_xplane(name):
    raw = sample(f"gpu/{name}.xplane.pb").read_bytes()
    space = XSpace.FromString(raw)
    streams = json.loads(chrome_text(space))
    read = read_xplane(raw, "f.xplane.pb"), read_chrome(json.dumps(streams).encode(), "f")
    # Exports leave the programs' numbers to derived lines, which come with xprof's alone.
    for table, columns in (
        ("ops", ["device_id", "module", "op", "kernel", "line", "hlo_category",
                 "traced_category", "start_ps", "duration_ps"]),
        ("launches", ["device_id", "module", "start_ps", "duration_ps", "enqueue_ps"]),
    ):  # fmt: skip
        whole, exported = (
            (op_rows(file) if table == "ops" else pl.concat(p.launches for p in file.planes))
            .select(columns)
            .sort(columns)
            for file in read
        )
        assert whole.height > 0
        assert exported.equals(whole), table
