"""Hours that a plan takes on its slices, from what its steps do and what the chips can do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import msgspec

from xlahouse.capture.models.attention import keys_at_once
from xlahouse.capture.models.presets import size_of
from xlahouse.capture.models.sharding import BATCH_AXES
from xlahouse.capture.plan import Experiment
from xlahouse.capture.serving import Serving, arrivals_of, buckets_of
from xlahouse.capture.slices import Generation, Slice, parse_slice

if TYPE_CHECKING:
    from xlahouse.capture.models.paper import Collective
    from xlahouse.capture.run.forecast import DeviceShare

REACHED = 0.5  # share of a chip's peak rates that a step reaches
COLLECTIVE_S = 10e-6  # of a collective besides its bytes
LINKS = 2  # that a ring uses: one each way
VM_S = 600.0  # until a slice's VM is ready and has its packages
START_S = 45.0  # of a process on the slice: ssh, imports, libtpu
FETCH_S = 15.0  # of an experiment's traces
DRAWN_BYTES_PER_S = 1e9  # a device's random weights
READ_BYTES_PER_S = 2e8  # of a checkpoint, all devices together
PREFILL_COMPILE_S, DECODE_COMPILE_S = 2.0, 0.5  # for a layer: tracing and compiling
BLOCK_COMPILE = 0.1  # of a layer's compilation, for each block of keys
SESSION_S = 15.0  # the profiler's, to start, stop and write
HOST_FLOPS_PER_S = 1e11  # of the unsharded model

ASSUMPTIONS = (
    f"steps at {REACHED:.0%} of the chip's peaks for FLOP/s, HBM and ICI, {COLLECTIVE_S * 1e6:g} us more "
    "for a collective",
    f"{VM_S / 60:g} min until a slice is ready, {START_S:g} s to start a process, {FETCH_S:g} s to fetch an "
    "experiment's traces",
    f"weights once a process: random ones {DRAWN_BYTES_PER_S / 1e9:g} GB/s a device, checkpoints "
    f"{READ_BYTES_PER_S / 1e9:g} GB/s in all",
    f"compilation {PREFILL_COMPILE_S:g} s a layer for a prefill ({BLOCK_COMPILE:.0%} more for a block of "
    f"keys), {DECODE_COMPILE_S:g} s for a decode step, once for repeats",
    f"{SESSION_S:g} s a session of the profiler",
)


@dataclass(frozen=True)
class Spent:
    """Seconds that experiments take, by what they do."""

    start: float = 0.0  # processes, their imports, fetching
    load: float = 0.0  # weights, once a process
    compile: float = 0.0  # programs that no earlier experiment compiled
    warm_up: float = 0.0  # requests before and beside the profiler
    steps: float = 0.0  # requests under the profiler, and the unsharded model's
    traces: float = 0.0  # the profiler's sessions

    def __add__(self, other: Spent) -> Spent:
        names = [each.name for each in fields(self)]
        return Spent(*(getattr(self, name) + getattr(other, name) for name in names))

    @property
    def total(self) -> float:
        """All of it."""
        return sum(float(getattr(self, each.name)) for each in fields(self))


@dataclass(frozen=True)
class SliceHours:
    """What a plan takes on one slice."""

    slice: Slice  # by its type, such as v6e-8
    experiments: int  # of the plan, for this slice
    spent: Spent  # all of them; the VM's own start is in `hours`

    @property
    def hours(self) -> float:
        """Of the slice, until its VM can be deleted."""
        return (VM_S + self.spent.total) / 3600

    @property
    def chip_hours(self) -> float:
        """Hours times chips."""
        return self.hours * self.slice.chips


def hours_of(chosen: Iterable[tuple[Experiment, DeviceShare]]) -> list[SliceHours]:
    """What experiments with a slice take, by slice in the plan's order."""
    compiled: set[bytes] = set()
    placed: set[bytes] = set()
    found: dict[str, list[Spent]] = {}
    for experiment, share in chosen:
        if not experiment.slice:
            continue
        programs = _programs(experiment)
        spent = spent_on(
            experiment, share, programs not in compiled, experiment.placing not in placed
        )
        compiled.add(programs)
        placed.add(experiment.placing)
        found.setdefault(parse_slice(experiment.slice).accelerator_type, []).append(spent)
    return [
        SliceHours(parse_slice(name), len(each), sum(each, start=Spent()))
        for name, each in found.items()
    ]


def spent_on(
    experiment: Experiment, share: DeviceShare, compiles: bool = True, places: bool = True
) -> Spent:
    """What one experiment takes on its slice.

    Args:
        experiment: of a plan, with a slice.
        share: of a device.
        compiles: none before had its programs.
        places: none before had its weights on its mesh, and so its process.
    """
    generation = parse_slice(experiment.slice).generation
    layers = size_of(experiment.model.sizes, "num_hidden_layers")
    prefill, decode = step_seconds(experiment, share, generation)
    served = experiment.serving is not None
    work = (_work_of_server if served else _work)(experiment, prefill, decode)
    if experiment.model.weights:
        load = share.parameters * _width(experiment) / READ_BYTES_PER_S
    else:
        load = share.weight_bytes / DRAWN_BYTES_PER_S
    prefill_compile = PREFILL_COMPILE_S * sum(
        1 + BLOCK_COMPILE * (blocks - 1) for blocks in _blocks(experiment)
    )
    unsharded = 2 * share.parameters * work.tokens / HOST_FLOPS_PER_S
    return Spent(
        start=FETCH_S + (START_S if places else 0.0),
        load=load if places else 0.0,
        compile=layers * (prefill_compile + DECODE_COMPILE_S) if compiles else 0.0,
        warm_up=work.warm_up_s,
        steps=work.profiled_s + (unsharded if experiment.compare else 0.0),
        traces=SESSION_S,
    )


@dataclass(frozen=True)
class _PlannedWork:
    """What runs, in seconds."""

    warm_up_s: float  # before and beside the profiler
    profiled_s: float  # under it
    tokens: int  # of prompts and outputs, which the unsharded model computes too


def _work(experiment: Experiment, prefill: float, decode: float) -> _PlannedWork:
    request = prefill + decode * (experiment.profiled_tokens - 1)
    whole = prefill + decode * (experiment.output_tokens - 1)
    warm = experiment.warmup_requests > 0
    tokens = experiment.batch_size * (experiment.prompt_tokens + experiment.profiled_tokens)
    return _PlannedWork(
        # The first is whole; one on each side of the profiler measures its cost.
        warm_up_s=whole + (experiment.warmup_requests + 1) * request if warm else 0.0,
        profiled_s=experiment.requests * request,
        tokens=tokens * experiment.requests,
    )


def _work_of_server(experiment: Experiment, prefill: float, decode: float) -> _PlannedWork:
    """At most: each step gives a token or more, decodes, and prefills while requests are left."""
    assert experiment.serving is not None
    arrivals, buckets = arrivals_of(experiment), buckets_of(experiment)
    steps = min(experiment.serving.profiled_steps, sum(each.output_tokens for each in arrivals))
    busy = steps * decode + min(len(arrivals), steps) * prefill
    return _PlannedWork(
        warm_up_s=max(experiment.warmup_requests, 1) * (len(buckets) * prefill + decode),
        profiled_s=max(busy, arrivals[-1].at_s),
        tokens=sum(each.prompt_tokens + each.output_tokens for each in arrivals),
    )


def step_seconds(
    experiment: Experiment, share: DeviceShare, generation: Generation
) -> tuple[float, float]:
    """Seconds of a prefill and of a decode step: the longer of arithmetic and memory, then collectives."""
    sizes, stages = experiment.mesh, experiment.mesh.get("pp", 1)
    # A stage reads its weights at every tick.
    passes = experiment.microbatches + stages - 1 if stages > 1 else 1

    def seconds(flops: int, collectives: Counter[Collective]) -> float:
        gathered = sum(
            each.payload_bytes * count
            for each, count in collectives.items()
            if each.axis == "fsdp"  # whole weights, written and read again
        )
        read = passes * share.weight_bytes + share.cache_bytes + 2 * gathered
        work = max(flops / generation.flops_per_s, read / generation.hbm_bytes_per_s)
        moved = sum(
            count * _wire_bytes(each, sizes[each.axis]) for each, count in collectives.items()
        )
        links = moved / (LINKS * generation.ici_bytes_per_s)
        return (work + links) / REACHED + collectives.total() * COLLECTIVE_S

    return (
        seconds(share.prefill_flops, share.prefill),
        seconds(share.decode_flops, share.decode),
    )


def _wire_bytes(collective: Collective, size: int) -> float:
    """Bytes that a device sends in a ring of `size`."""
    part = (size - 1) / size * collective.payload_bytes
    if collective.kind == "collective-permute":
        return float(collective.payload_bytes)
    return 2 * part if collective.kind == "all-reduce" else part


def _blocks(experiment: Experiment) -> list[int]:
    """Blocks of keys of each prefill program's attention."""
    sizes, mesh = experiment.model.sizes, experiment.mesh
    heads = size_of(sizes, "num_attention_heads") // (mesh.get("tp", 1) * mesh.get("sp", 1))
    batch = experiment.batch_size // math.prod(mesh.get(axis, 1) for axis in BATCH_AXES)
    if experiment.serving is not None:  # a prompt, which attends to itself
        rows = [(heads * length, length) for length in buckets_of(experiment)]
    else:
        length = experiment.prompt_tokens + experiment.output_tokens
        rows = [(batch // experiment.microbatches * heads * experiment.prompt_tokens, length)]
    return [
        math.ceil(keys / (experiment.key_block or keys_at_once(queries))) for queries, keys in rows
    ]


def _width(experiment: Experiment) -> int:
    return 2 if experiment.dtype == "bfloat16" else 4


def _programs(experiment: Experiment) -> bytes:
    """Equal for experiments that run the same programs."""
    plain: dict[str, object] = {
        "name": "x",
        "seed": 0,
        "repeat": 0,
        "requests": 1,
        "warmup_requests": 0,
    }
    if experiment.serving is not None:
        plain["serving"] = Serving(poisson_per_s=1, buckets=tuple(buckets_of(experiment)))
    return msgspec.json.encode(msgspec.structs.replace(experiment, **plain, compare=False))


def hour_lines(found: Sequence[SliceHours]) -> Iterator[str]:
    """A table of the hours by slice, and what they assume; nothing without a slice."""
    if not found:
        return
    names = [each.name for each in fields(Spent)]
    heads = ["slice", "experiments", *(name.replace("_", "-") for name in names), "hours"]
    rows = [
        [
            each.slice.accelerator_type,
            str(each.experiments),
            *(f"{getattr(each.spent, name) / 60:.1f}" for name in names),
            f"{each.hours:.2f}",
            f"{each.chip_hours:,.1f}",
        ]
        for each in found
    ]
    whole = sum((each.spent for each in found), start=Spent())
    rows.append(
        [
            "all",
            str(sum(each.experiments for each in found)),
            *(f"{getattr(whole, name) / 60:.1f}" for name in names),
            f"{sum(each.hours for each in found):.2f}",
            f"{sum(each.chip_hours for each in found):,.1f}",
        ]
    )
    table = [[*heads, "chip-hours"], *rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(table[0]))]
    yield "time on the slices, estimated: minutes by kind, then hours with each VM's start"
    for first, *others in table:
        cells = (word.rjust(width) for word, width in zip(others, widths[1:], strict=True))
        yield "  " + "  ".join([first.ljust(widths[0]), *cells])
    yield from (f"  assumed: {line}" for line in ASSUMPTIONS)
