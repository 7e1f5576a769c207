from __future__ import annotations

import polars as pl
import pytest

from tests.ingest.build import ModuleBuilder, PlaneBuilder, shape, space
from tests.ingest.traces import rows, write
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.schema import BY_NAME

GPU = {
    "device_vendor": "NVIDIA",
    "compute_cap_major": 9,
    "compute_cap_minor": 0,
    "core_count": 132,
    "clock_rate": 1980000,
    "memory_bandwidth": 3352320000000,
}
OP = {"hlo_module": "jit_f", "program_id": 7}


def program():
    """One asynchronous all-reduce of f32[256] between devices 0 and 1; its done has no kernel."""
    module = ModuleBuilder("jit_f", devices=[[0], [1]])
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", shape("f32", 256))
    start = module.add(
        entry,
        "all-reduce-start.1",
        "all-reduce-start",
        shape("f32", 256),
        x,
        channel_id=1,
        use_global_device_ids=True,
        groups=[[0, 1]],
    )
    module.add(entry, "all-reduce-done.1", "all-reduce-done", shape("f32", 256), start)
    metadata = PlaneBuilder("/host:metadata")
    metadata.metadata("jit_f", meta={"Hlo Proto": module.serialize(), "program_id": 7})
    return metadata


def host_plane(*executions):
    """Executions (executor's thread, start, duration) and the calls in them (thread, time, id)."""
    plane = PlaneBuilder("/host:CPU")
    for thread, start, duration, calls in executions:
        line = plane.line(f"py_xla_execute/{thread}")
        plane.event(line, "GpuExecutable::ExecuteThunks", start, duration, module_name="jit_f")
        line = plane.line(f"Host Threads/{thread}")
        for name, at, correlation in calls:
            stats = {"hlo_module": "jit_f"} if name == "cuLaunchKernel" else {}
            plane.event(line, name, at, 10, correlation_id=correlation, **stats)
    return plane


def ingest(tmp_path, *planes):
    path = write(tmp_path / "host0.xplane.pb", space(*(p.plane for p in planes)))
    ingest_paths([path], str(tmp_path / "wh"))
    names = ("ops", "launches", "collectives", "devices", "host_events", "issues", "coverage")
    return {name: table(tmp_path / "wh", name) for name in names}


def table(root, name):
    """All rows of a table; empty where none was written."""
    if list(root.glob(f"tables/{name}/*/*.parquet")):
        return rows(root, name)
    return pl.DataFrame(pl.from_arrow(BY_NAME[name].schema.empty_table()))


def test_kernels_become_ops_of_their_programs(tmp_path):
    planes = []
    for device in (0, 1):
        plane = PlaneBuilder(f"/device:GPU:{device}", **GPU)
        stream = plane.line("Stream #14(Compute)")
        first = device * 10
        plane.event(
            stream, "fusion_kernel", 1000, 100, correlation_id=first, hlo_op="fusion.1", **OP
        )
        plane.event(stream, "unnamed_kernel", 1200, 50, correlation_id=first + 1)
        ring = plane.line("Stream #20(Compute)")
        plane.event(
            ring,
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            1100,
            400 + device,
            correlation_id=first + 2,
            hlo_op="all-reduce-start.1",
            **OP,
        )
        copies = plane.line("Stream #22(MemcpyD2H)")
        plane.event(copies, "MemcpyD2H", 2000, 30, correlation_id=first + 3)
        plane.event(copies, "MemcpyD2D", 2100, 30, correlation_id=first + 4)
        derived = plane.line("XLA Ops")
        plane.event(derived, "fusion.1", 1000, 100)
        planes.append(plane)
    names = ("cuLaunchKernel", "cuLaunchKernel", "cuLaunchKernel")
    calls = [
        [(name, 500 + 20 * n + 5 * device, 10 * device + n) for n, name in enumerate(names)]
        + [("cuMemcpyDtoHAsync_v2", 950, 10 * device + 3)]
        for device in (0, 1)
    ]
    # The executions overlap: each spans all calls of its own thread, and two of the other's three.
    host = host_plane(("a", 490, 54, calls[0]), ("b", 504, 400, calls[1]))
    tables = ingest(tmp_path, program(), *planes, host)
    ops = tables["ops"].filter(pl.col("device_id") == 0).sort("start_ps")
    assert ops.select("op", "kernel", "category", "program_id", "launch").rows() == [
        ("fusion.1", "fusion_kernel", "compute", 7, 0),
        (
            "all-reduce-start.1",
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "collective",
            7,
            0,
        ),
        ("unnamed_kernel", "unnamed_kernel", "compute", 7, 0),
        ("MemcpyD2H", "MemcpyD2H", "host_transfer", None, None),
        ("MemcpyD2D", "MemcpyD2D", "copy", None, None),
    ]
    launches = tables["launches"].sort("device_id")
    assert launches.select(
        "device_id", "start_ps", "duration_ps", "enqueue_ps", "module"
    ).rows() == [
        (0, 1000, 500, 490, "jit_f"),
        (1, 1000, 501, 504, "jit_f"),
    ]
    assert launches["launch_instance"].n_unique() == 1
    found = tables["collectives"].sort("device_id")
    names = ("kind", "payload_bytes", "duration_ps", "is_async", "group_size", "instance")
    assert found.select(names).rows() == [
        ("all-reduce", 1024, 400, False, 2, 0),
        ("all-reduce", 1024, 401, False, 2, 0),
    ]
    device = tables["devices"].row(0, named=True)
    assert (device["core"], device["kind"]) == ("gpu", "NVIDIA GPU 9.0, 132 cores, 1980 MHz")
    assert device["peak_hbm_bytes_per_s"] == 3352320000000
    issues = dict(tables["issues"].select("code", "count").rows())
    assert issues["derived_lines"] == 1
    derived = tables["host_events"].filter(pl.col("thread") == "/device:GPU:0/XLA Ops")
    assert derived.height == 1
    coverage = tables["coverage"]
    assert coverage["events_read"].sum() == 12 + 10


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long, ncclWork*)", "all-gather"),
        ("ncclKernel_ReduceScatter_RING_SIMPLE_Sum_bf16", "reduce-scatter"),
        # NCCL names kernels of other collectives after these, RCCL all of them
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", None),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", None),
        ("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", "all-reduce"),
        ("void ncclKernel_AllGather_RING_LL<int>", "all-gather"),
        ("rcclGenericKernel_AllReduce_Sum_f32", "all-reduce"),
    ],
)
def test_without_hlo_the_kernels_name_tells_the_kind_alone(tmp_path, kernel, kind):
    plane = PlaneBuilder("/device:GPU:0", **GPU)
    plane.event(plane.line("Stream #7(Compute)"), kernel, 1000, 100, correlation_id=1)
    tables = ingest(tmp_path, plane)
    row = tables["collectives"].row(0, named=True)
    assert (row["kind"], row["payload_bytes"], row["group_size"]) == (kind, None, None)
    codes = dict(tables["issues"].select("code", "count").rows())
    assert codes["kind_inferred" if kind else "collective_kind_unknown"] == 1
    assert ("kind_inferred" in codes) != ("collective_kind_unknown" in codes)
    assert codes["collective_without_payload"] == 1
    assert tables["ops"]["category"].to_list() == ["collective"]


def test_without_hlo_the_kernel_of_a_start_is_the_whole_transfer(tmp_path):
    """GPUs have no event for the done: the start's kernel moves the data."""
    plane = PlaneBuilder("/device:GPU:0", **GPU)
    kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    stream = plane.line("Stream #7(Compute)")
    plane.event(stream, kernel, 1000, 100, **OP | {"hlo_op": "all-reduce-start.1"})
    tables = ingest(tmp_path, plane)
    found = tables["collectives"].select("op", "kind", "start_ps", "duration_ps", "is_async")
    assert found.rows() == [("all-reduce-start.1", "all-reduce", 1000, 100, False)]
    assert "async_unpaired" not in set(tables["issues"]["code"])


@pytest.mark.parametrize(("gpus", "is_found"), [(2, False), (1, True)])
def test_a_program_on_more_gpus_than_the_host_has_leaves_their_numbers_in_doubt(
    tmp_path, gpus, is_found
):
    """The program runs on devices 0 and 1: with one GPU here, it may be either."""
    planes = [PlaneBuilder(f"/device:GPU:{number}", **GPU) for number in range(gpus)]
    planes[0].event(planes[0].line("Stream #7(Compute)"), "k", 1000, 100, **OP)
    codes = set(ingest(tmp_path, program(), *planes)["issues"]["code"])
    assert ("device_number_assumed" in codes) == is_found


def test_a_copy_between_host_and_device_is_told_by_its_call(tmp_path):
    """ROCm's copy kernel has one name for every direction; the host's call names it."""
    plane = PlaneBuilder("/device:GPU:0", device_vendor="AMD")
    stream = plane.line("Stream #1(Kernel)")
    plane.event(stream, "__amd_rocclr_copyBuffer.kd", 1000, 100, correlation_id=1)
    plane.event(stream, "__amd_rocclr_copyBuffer.kd", 2000, 100, correlation_id=2)
    calls = [("hipMemcpyHtoDAsync", 500, 1), ("hipMemcpyDtoDAsync", 600, 2)]
    tables = ingest(tmp_path, plane, host_plane(("a", 5000, 10, calls)))
    assert tables["ops"].sort("start_ps")["category"].to_list() == ["host_transfer", "copy"]
    assert tables["devices"]["kind"].to_list() == ["AMD GPU"]


def test_executions_that_cannot_be_told_apart_are_an_issue(tmp_path):
    plane = PlaneBuilder("/device:GPU:0", **GPU)
    stream = plane.line("Stream #7(Compute)")
    plane.event(stream, "k", 1000, 100, correlation_id=1, hlo_op="fusion.1", **OP)
    calls = [("cuLaunchKernel", 520, 1)]
    tables = ingest(tmp_path, plane, host_plane(("a", 490, 100, calls), ("b", 500, 100, [])))
    assert tables["launches"].is_empty()
    assert dict(tables["issues"].select("code", "count").rows())["launch_unknown"] == 1


def test_mi300_samples(sample_warehouse):
    """Counts taken from the files by hand: kernels a plane, and GpuExecutable::ExecuteThunks events."""
    conv_root, gemm_root = (
        sample_warehouse(f"gpu/mi300_jax_{name}.xplane.pb") for name in ("conv", "gemm")
    )
    conv = rows(conv_root, "ops").group_by("device_id").len().sort("device_id")
    assert conv.rows() == [(0, 60), *((device, 25) for device in range(1, 8))]
    assert rows(conv_root, "launches").height == 40
    assert rows(gemm_root, "ops").height == 54
    assert rows(gemm_root, "launches").height == 42
    launched = rows(gemm_root, "launches")
    assert (launched["start_ps"] > launched["enqueue_ps"]).all()
    copies = rows(gemm_root, "ops").filter(pl.col("kernel").str.contains("copyBuffer"))
    assert dict(copies.group_by("category").len().rows()) == {"copy": 12, "host_transfer": 12}


@pytest.mark.parametrize("value", ["NVIDIA", b"\xff", "nan", -1.0, float("inf"), 0])
@pytest.mark.parametrize("kind", ["GPU", "TPU"])
def test_a_peak_that_is_no_amount_costs_itself(tmp_path, value, kind):
    peaks = ("memory_bandwidth", "clock_rate", "peak_teraflops_per_second")
    names = (*peaks, "peak_hbm_bw_gigabytes_per_second")
    plane = PlaneBuilder(f"/device:{kind}:0", **(GPU | dict.fromkeys(names, value)))
    line = plane.line("XLA Modules" if kind == "TPU" else "Stream #14(Compute)")
    plane.event(line, "jit_f(7)" if kind == "TPU" else "fusion", 1000, 100)
    tables = ingest(tmp_path, plane)
    peaks = tables["devices"].select("peak_flops", "peak_hbm_bytes_per_s").rows()
    assert peaks == [(None, None)]
    assert "damaged_plane" not in set(tables["issues"]["code"])
