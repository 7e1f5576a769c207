"""Writes a run's traces as a capture lays them out: a file a process, the manifest beside."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

from tests.synth import model
from tests.synth.describe import Run
from tests.synth.device import device_plane
from tests.synth.host import environment_plane, host_plane, metadata_plane
from tests.synth.lower import lower
from tests.synth.planes import Plane
from tests.synth.programs import extra_program, programs
from tests.synth.varints import delimited
from xlahouse.capture.manifest import Manifest, MeshAxis, RequestTiming, write_manifest

SESSION = "trace_0.trace/plugins/profile/2025_03_11_19_41_39"


def processes(run: Run) -> Iterator[tuple[int, int, list[int]]]:
    """(host, process, mesh positions by plane number) of each traced process of a world."""
    for host in range(run.hosts):
        for process in range(run.processes):
            inside = [p for p in run.positions if (run.host(p), run.process(p)) == (host, process)]
            if inside:
                yield host, process, sorted(inside, key=run.local)


def process_planes(run: Run, host: int, positions: list[int], world: int) -> Iterator[Plane]:
    """The planes of one process' file."""
    ours = [program for program in programs(run) if set(program.positions) & set(positions)]
    if run.extra_launches and run.positions[0] in positions:
        ours.append(extra_program(run))
    lowered = {program.id: lower(run, program) for program in ours}
    for number, position in enumerate(positions):
        yield device_plane(run, position, lowered, 2 + 8 * number)
    yield metadata_plane(run, ours, lowered)
    yield host_plane(run, host, positions, 1)
    yield environment_plane(run, host, world)


def manifest(run: Run) -> Manifest:
    """What a capture would note down about the run."""
    return Manifest(
        name=run.name,
        captured_at="2025-03-11T19:41:39Z",
        framework="torch_xla",
        framework_versions={"torch_xla": "2.9.0"},
        model="synthetic",
        model_family="synthetic",
        model_config=model.config(run),
        weights="none",
        layers=run.layers,
        hidden_size=run.hidden,
        dtype=run.dtype,
        batch_size=run.batch,
        microbatches=run.microbatches if run.size("pp") > 1 else 1,
        prompt_tokens=run.prompt_tokens,
        output_tokens=run.output_tokens,
        parallelism=".".join(f"{axis}{size}" for axis, size in run.mesh),
        mesh=[MeshAxis(axis, size) for axis, size in run.mesh],
        mesh_device_ids=list(run.devices),
        device_kind="TPU v6 lite",
        device_count=len(run.devices),
        host_count=run.hosts,
        warmup_requests=0,
        requests=[RequestTiming(request=r, ttft_s=0.5, step_s=[0.25]) for r in range(run.requests)],
        tokens=[],
        parameters=model.PARAMETERS,
        weight_bytes=model.WEIGHT_BYTES,
        kv_bytes_per_token=model.KV_BYTES_PER_TOKEN,
        plan_entry={"capacity_factor": model.CAPACITY},
        **(tick_schedule(run) if run.scheduled_ticks else {}),
    )


def tick_schedule(run: Run) -> dict[str, list]:
    """Layers of each stage, and the microbatch that it holds at each tick: stage s holds m at s + m."""
    stages, count = run.size("pp"), run.layers // run.size("pp")
    ticks = range(run.microbatches + stages - 1)
    held = [
        [t - s if 0 <= t - s < run.microbatches else None for s in range(stages)] for t in ticks
    ]
    layers = [list(range(s * count, (s + 1) * count)) for s in range(stages)]
    return {"stage_layers": layers, "tick_microbatch": held}


def write_run(run: Run, folder: Path, workers: int = 1) -> list[Path]:
    """Write the run's files below `folder`, by so many processes; gives the XSpace files."""
    session = folder / SESSION
    session.mkdir(parents=True)
    several = run.processes > 1 or run.worlds > 1
    files = []
    for world, (host, process, positions) in product(range(run.worlds), processes(run)):
        name = f"host{host}.{world + process}" if several else f"host{host}"
        files.append((run, session / f"{name}.xplane.pb", host, positions, world))
    if workers == 1:
        for file in files:
            _write_file(*file)
    else:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            list(pool.map(_write_file, *zip(*files, strict=True)))
    write_manifest(manifest(run), folder / "metadata_0.json")
    return [path for _, path, *_ in files]


def _write_file(run: Run, path: Path, host: int, positions: list[int], world: int) -> None:
    with path.open("wb") as file:
        for plane in process_planes(run, host, positions, world):
            file.writelines(plane.pieces())
        file.write(delimited(4, len(f"host{host}")) + f"host{host}".encode())
