"""Traces for the sweep: for each reader a small one, or several, that hold all names it depends on."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.ingest.build import ModuleBuilder, PlaneBuilder, shape, space
from tests.ingest.chrome_build import document, event, named
from tests.samples import sample
from tests.sweep.hlo_mutants import of_programs, of_text
from tests.sweep.hlo_text import dump, dumped_trace
from tests.sweep.mutants import Mutant, of_chrome, of_xplane
from tests.synth.cases import CASES as SYNTHETIC
from tests.synth.chrome import chrome_text
from tests.synth.protos import XSpace
from tests.synth.write import write_run
from xlahouse.ingest.events.proto import message_class

CASES = Path(__file__).parents[1] / "cases"
XPLANE, CHROME, DUMP = ".xplane.pb", ".trace.json", ".after_optimizations.txt"
TORCH_XLA = "cpu/torch_xla_mlp_4dev.xplane.pb"
US = 1_000_000  # ps


@dataclass(frozen=True)
class Input:
    """A trace, or a dump beside one, that is mutated."""

    reader: str  # the reader that it is for
    name: str
    ending: str  # of its file
    make: Callable[[], bytes]
    mutate: Callable[[bytes], Iterator[Mutant]]
    trace: Callable[[], bytes] | None = (
        None  # a Chrome trace, where the input is its program's dump
    )


def xplane(reader: str, name: str, make: Callable[[], bytes]) -> Input:
    """An xplane whose names are mutated."""
    return Input(reader, name, XPLANE, make, of_xplane)


def programs(name: str, make: Callable[[], bytes]) -> Input:
    """An xplane whose programs are mutated."""
    return Input("HLO proto", name, XPLANE, make, of_programs)


def chrome(reader: str, name: str, make: Callable[[], bytes]) -> Input:
    """A Chrome trace whose names are mutated."""
    return Input(reader, name, CHROME, make, of_chrome)


def synthetic(name: str) -> bytes:
    """The xplane of a synthetic run of one host."""
    with TemporaryDirectory() as folder:
        (path,) = write_run(SYNTHETIC[name], Path(folder))
        return path.read_bytes()


def without_hlo(raw: bytes) -> bytes:
    """The same xplane as a profiler writes it that keeps no programs."""
    whole, kept = XSpace.FromString(raw), XSpace()
    for plane in whole.planes:
        if plane.name != "/host:metadata":
            kept.planes.add().CopyFrom(plane)
    kept.hostnames.extend(whole.hostnames)
    return kept.SerializeToString()


def exported(raw: bytes) -> bytes:
    """The Chrome trace of an xplane."""
    return chrome_text(XSpace.FromString(raw)).encode()


def case(folder: str, pattern: str = "*") -> bytes:
    """The one trace in a folder of cases."""
    (path,) = (p for p in (CASES / folder).rglob(pattern) if p.is_file())
    raw = path.read_bytes()
    return gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw


def tpu_memory() -> bytes:
    """A TPU with an op that states what it moves, and allocations whose allocator has no name."""
    moved = message_class("MemoryAccessBreakdown")()
    moved.memory_accessed.add(memory_space=1, bytes_accessed=128)
    plane = PlaneBuilder("/device:TPU:0", core_details=b"", device_type_string="TPU v6 Lite")
    plane.event(plane.line("XLA Modules"), "jit_f(77)", 100 * US, 50 * US, _ct=7, _c=5)
    plane.event(
        plane.line("XLA Ops"), "%fusion.1 = f32[8]{0} fusion(f32[8]{0} %x)", 100 * US, 50 * US,
        "fusion.1", {"program_id": 77, "memory_access_breakdown": moved.SerializeToString()},
    )  # fmt: skip
    host = PlaneBuilder("/host:CPU")
    line = host.line("main")
    host.event(line, "Enqueue", 10 * US, US, _pt=7, _p=5)
    told = {"bytes_allocated": 512, "peak_bytes_in_use": 1024, "index_on_host": 0}
    host.event(line, "MemoryAllocation", 20 * US, US, **told)
    return space(plane.plane, host.plane)


def gpu_xplane(with_program: bool = True) -> bytes:
    """Two GPUs: an execution each of a fusion, a kernel without op, an all-reduce and copies."""
    module = ModuleBuilder("jit_f", devices=[[0], [1]])
    entry = module.computation("main")
    f32 = shape("f32", 256)
    x = module.add(entry, "x", "parameter", f32)
    group: dict[str, Any] = {"channel_id": 1, "use_global_device_ids": True, "groups": [[0, 1]]}
    start = module.add(entry, "all-reduce-start.1", "all-reduce-start", f32, x, **group)
    module.add(entry, "all-reduce-done.1", "all-reduce-done", f32, start)
    module.add(entry, "fusion.1", "fusion", f32, x, op_name="jit(f)/layers.3/mlp/dot_general")
    metadata = PlaneBuilder("/host:metadata")
    metadata.metadata("jit_f", meta={"Hlo Proto": module.serialize(), "program_id": 7})
    host = PlaneBuilder("/host:CPU")
    planes = [metadata.plane] if with_program else []
    for device in (0, 1):
        run, calls = host.line(f"py_xla_execute/{device}"), host.line(f"Host Threads/{device}")
        began = 500 * US + 50 * US * device
        host.event(run, "GpuExecutable::ExecuteThunks", began, 40 * US, module_name="jit_f")
        for number in range(5):
            name = "cuMemcpyDtoHAsync_v2" if number == 3 else "cuLaunchKernel"
            of_program = {"hlo_module": "jit_f"} if number < 3 else {}
            at = began + US * (1 + number)
            host.event(calls, name, at, US, correlation_id=10 * device + number, **of_program)
        planes.append(_gpu_plane(device))
    return space(*planes, host.plane)


def _gpu_plane(device: int) -> Any:
    plane = PlaneBuilder(
        f"/device:GPU:{device}", device_vendor="NVIDIA", compute_cap_major=9, compute_cap_minor=0,
        core_count=132, clock_rate=1980000, memory_bandwidth=3352320000000,
        device_type_string="", peak_teraflops_per_second=989.0,
    )  # fmt: skip
    of_program: dict[str, Any] = {"hlo_module": "jit_f", "program_id": 7}
    stream, ring = plane.line("Stream #14(Compute)"), plane.line("Stream #20(Compute)")
    copies, derived = plane.line("Stream #22(MemcpyD2H)"), plane.line("XLA Ops")
    reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    scope = "jit(f)/layers.3/mlp/dot_general"
    for number, (line, kernel, start, length, stats) in enumerate(
        [
            (
                stream,
                "fusion_kernel",
                1000,
                100,
                {"hlo_op": "fusion.1", "name": scope} | of_program,
            ),
            (ring, reduce, 1100, 400, {"hlo_op": "all-reduce-start.1"} | of_program),
            (stream, "unnamed_kernel", 1200, 50, {}),
            (copies, "MemcpyD2H", 2000, 30, {"memcpy_details": "kind_src:device kind_dst:host"}),
            (copies, "MemcpyD2D", 2100, 30, {}),
        ]
    ):
        correlation = 10 * device + number
        plane.event(line, kernel, start * US, length * US, correlation_id=correlation, **stats)
    plane.event(derived, "fusion.1", 1000 * US, 100 * US)
    return plane.plane


def kineto() -> bytes:
    """One rank of two: a step with a kernel, copies, a collective that the kernel describes, and one
    that the host's annotation describes."""

    def on_host(name: str, ts: int, dur: int, cat: str, **args: Any) -> str:
        return event(name, ts, dur, pid=99, tid=9, cat=cat, args=args)

    def ran(name: str, ts: int, dur: int, cat: str = "kernel", stream: int = 7, **args: Any) -> str:
        told = {"device": 0, "stream": stream, **args}
        return event(name, ts, dur, pid=0, tid=stream, cat=cat, args=told)

    described = {"Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": 1024,
                 "Out msg nelems": 1024, "Group size": 2, "Process Group Name": "0",
                 "Process Group Ranks": "[0, 1]", "Process Group Description": "default_pg",
                 "Seq": 4}  # fmt: skip
    gathered = {"Input Dims": [[64], [16], []], "Input type": ["float", "float", ""]}
    events = [
        on_host("ProfilerStep#3", 5, 60, "user_annotation"),
        on_host("cudaLaunchKernel", 10, 1, "cuda_runtime", correlation=1),
        on_host("cudaLaunchKernel", 14, 1, "cuda_runtime", correlation=2),
        on_host("c10d::_allgather_base_", 20, 9, "cpu_op", **gathered),
        on_host("nccl:_all_gather_base", 21, 6, "user_annotation",
                **{"Input Dims": [[16]], "Input type": ["float"]}),
        on_host("cudaLaunchKernel", 23, 1, "cuda_runtime", correlation=3),
        on_host("cudaMemcpyAsync", 31, 1, "cuda_runtime", correlation=4),
        ran("gemm", 100, 50, correlation=1),
        ran("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", 160, 40, stream=20, correlation=2, **described),
        ran("ncclKernel_SendRecv_RING(x)", 210, 30, stream=20, correlation=3),
        ran("Memcpy HtoD (Pageable -> Device)", 250, 9, "gpu_memcpy", 8, correlation=4),
        ran("Memset (Device)", 262, 3, "gpu_memset"),
        *named(99, "python"),
    ]  # fmt: skip
    groups = [{"pg_name": "0", "pg_size": 2, "ranks": [0, 1]}]
    tail = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
        "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2, "pg_config": groups},
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
    }
    return document(*events, tail=f",{json.dumps(tail)[1:]}")


INPUTS = (
    xplane("TPU xplane", "tp4", lambda: synthetic("tp4")),
    xplane("TPU xplane", "tp4 without HLO", lambda: without_hlo(synthetic("tp4"))),
    xplane("TPU xplane", "fsdp_exposed", lambda: synthetic("fsdp_exposed")),
    xplane("TPU xplane", "moe", lambda: case("transfers/moe_exposed_by_kind")),
    xplane("TPU xplane", "async", lambda: case("transfers/async_collective_without_hlo")),
    xplane("TPU xplane", "dynamic", lambda: case("transfers/bounded_dynamic_shape")),
    xplane("TPU xplane", "Pallas", lambda: case("transfers/pallas_kernel_with_ici")),
    xplane("TPU xplane", "tf_op", lambda: case("foreign/tf_op_without_hlo")),
    xplane("SparseCore", "offload", lambda: case("transfers/sparsecore_offload_without_hlo")),
    xplane("Megascale", "DCN", lambda: case("transfers/megascale_dcn")),
    xplane("host", "compile", lambda: case("foreign/compile_within_a_step")),
    xplane("host", "allocators", lambda: case("foreign/hbm_allocator_events")),
    xplane("host", "memory of a TPU", tpu_memory),
    xplane("host", "no device", lambda: case("foreign/tpu_run_without_device_events")),
    xplane("GPU xplane", "two GPUs", gpu_xplane),
    xplane("GPU xplane", "two GPUs without HLO", lambda: gpu_xplane(with_program=False)),
    xplane("CPU xplane", "JAX 0.10", lambda: case("foreign/jax_0_10_cpu_8_devices", "*.pb")),
    xplane("CPU xplane", "torch_xla", lambda: sample(TORCH_XLA).read_bytes()),
    chrome("Chrome, TPU", "tp4", lambda: exported(synthetic("tp4"))),
    chrome("Chrome, TPU", "tf_op", lambda: case("foreign/tf_op_without_hlo_chrome")),
    chrome("Chrome, GPU", "two GPUs", lambda: exported(gpu_xplane())),
    chrome("Chrome, CPU", "JAX 0.10", lambda: case("foreign/jax_0_10_cpu_chrome")),
    chrome("Kineto", "one of two ranks", kineto),
    chrome("Kineto", "Seq", lambda: case("clocks/kineto_ranks_seq", "*rank0*")),
    chrome("Kineto", "replayed graphs", lambda: case("foreign/kineto_graph_replay_steps")),
    chrome("Kineto", "merged ranks", lambda: case("foreign/kineto_merged_two_ranks")),
    programs("all-reduces", lambda: synthetic("tp4")),
    programs("asynchronous all-gathers", lambda: synthetic("fsdp_exposed")),
    programs("permutes", lambda: synthetic("pp_stages")),
    programs("of GPUs", gpu_xplane),
    Input("HLO text", "five kinds", DUMP, dump, of_text, dumped_trace),
)
