"""The recipe of a forward pass: what each device of a program does, in order, with its times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.synth.describe import Run


@dataclass(frozen=True)
class Transfer:
    """What a collective moves: dims are those of its payload (METRICS, Bytes) for its kind."""

    kind: str
    axis: str
    dims: tuple[int, ...]
    bytes: int
    ps: int  # once all members are there


@dataclass(frozen=True)
class Segment:
    """One op (or a gap) of a program.

    `what` is compute, sync, start, done, copy-start, copy-done, idle, loop or end-loop; `op` the
    instruction; `ps` its time: of a sync collective the transfer alone, of a done op the least.
    """

    what: str
    op: str
    ps: int = 0
    transfer: Transfer | None = None
    layer: int | None = None
    component: str | None = None
    tick: int | None = None
    pair: str = ""  # a done op's start op


def _transfer(run: Run, kind: str, axis: str, dims: tuple[int, ...]) -> Transfer:
    size = run.item_bytes
    for dim in dims:
        size *= dim
    return Transfer(kind, axis, dims, size, run.link.ps(size))


def _sync(run: Run, op: str, kind: str, axis: str, dims: tuple[int, ...]) -> Segment:
    transfer = _transfer(run, kind, axis, dims)
    return Segment("sync", op, transfer.ps, transfer)


def _reduced(run: Run, op: str, number: int, kind: str, axis: str, dims: tuple[int, ...]):
    """A collective on its own, or an async one with a little compute meanwhile."""
    if not run.overlapped:
        yield _sync(run, op, kind, axis, dims)
        return
    transfer, stem = _transfer(run, kind, axis, dims), "async" if run.wrapped_async else kind
    start = f"{stem}-start.{number}"
    yield Segment("start", start, run.issue_ps, transfer)
    yield Segment("compute", f"overlap_fusion.{number}", run.router.ps(dims[0]))
    yield Segment("done", f"{stem}-done.{number}", run.done_ps, transfer, pair=start)


def _computed(run: Run, stem: str, index: int, ps: int) -> Iterator[Segment]:
    """What attention or mlp of a layer computes: one op, or several of that time each."""
    for number in range(run.fusions):
        name = f"{stem}.{index}" if run.fusions == 1 else f"{stem}.{index}.{number}"
        yield Segment("compute", name, ps)


def _half(run: Run, phase: str, component: str, index: int) -> Iterator[Segment]:
    """Attention or mlp of one layer, with the tp collectives around it."""
    tokens = run.tokens(phase)
    cost = run.attention if component == "attention" else run.mlp
    shape, tp = (tokens, run.hidden), run.size("tp") > 1
    if tp and run.sequence_parallel:
        yield Segment("compute", f"norm_fusion.{index}", run.router.ps(tokens))
        yield _sync(run, f"all-gather.{index}", "all-gather", "tp", shape)
    if component == "mlp" and run.size("ep") > 1:
        routed = (run.size("ep"), tokens, run.hidden)
        yield Segment("compute", f"router_fusion.{index}", run.router.ps(tokens))
        yield _sync(run, f"all-to-all.{2 * index}", "all-to-all", "ep", routed)
        yield from _computed(run, "experts_fusion", index, cost.ps(tokens))
        yield _sync(run, f"all-to-all.{2 * index + 1}", "all-to-all", "ep", routed)
    else:
        stem = "attention_kernel" if component == "attention" else "mlp_fusion"
        yield from _computed(run, stem, index, cost.ps(tokens))
    if tp and run.sequence_parallel:
        yield _sync(run, f"reduce-scatter.{index}", "reduce-scatter", "tp", shape)
    elif tp:  # vLLM's all-reduces are called psum: a name proves nothing
        stem = "psum" if component == "attention" else "all-reduce"
        yield from _reduced(run, f"{stem}.{index}", index, "all-reduce", "tp", shape)


def _gathers(run: Run, layer: int, what: str) -> Iterator[Segment]:
    """Start or done of the gathers of a layer's two weights."""
    stem = "async" if run.wrapped_async else "all-gather"
    for number, rows in enumerate((4, 8), start=2 * layer):
        transfer = _transfer(run, "all-gather", "fsdp", (rows * run.hidden, run.hidden))
        start = f"{stem}-start.{number}"
        if what == "start":
            yield Segment("start", start, run.issue_ps, transfer, layer)
        else:
            yield Segment("done", f"{stem}-done.{number}", run.done_ps, transfer, layer, pair=start)


def _copies(run: Run, what: str) -> Iterator[Segment]:
    for number in range(2):
        start = f"copy-start.{number}"
        if what == "start":
            late = run.zero_starts and number == 1
            yield Segment("copy-start", start, 0 if late else run.issue_ps)
        else:
            yield Segment("copy-done", f"copy-done.{number}", run.copy_ps, pair=start)


def layer_segments(run: Run, phase: str, layer: int, name: int) -> Iterator[Segment]:
    """One layer; `name` numbers its ops (0 for every layer of a loop)."""
    fsdp = run.size("fsdp") > 1 and layer + 1 < run.layers
    if fsdp:
        yield from _gathers(run, layer + 1, "start")
    for half, component in enumerate(("attention", "mlp")):
        for segment in _half(run, phase, component, 2 * name + half):
            yield replace(segment, layer=None if run.loop else layer, component=component)
        if run.copies and layer == 0 and half == 0:
            yield from _copies(run, "done")
        if run.gap_ps and half == 0:
            yield Segment("idle", "", run.gap_ps, layer=layer)
    if fsdp:
        yield from _gathers(run, layer + 1, "done")


def _whole(run: Run, phase: str) -> Iterator[Segment]:
    """A program that holds the whole model."""
    tokens = run.tokens(phase)
    fsdp = run.size("fsdp") > 1
    if fsdp:
        yield from _gathers(run, 0, "start")
    shape = (tokens, run.hidden)
    if run.opens_with_collective:
        yield _sync(run, "all-reduce.900", "all-reduce", "tp", shape)
    yield Segment("compute", "embed_fusion", run.embedding.ps(tokens), component="embedding")
    if run.sharded_vocabulary:
        yield _sync(run, "all-reduce.901", "all-reduce", "tp", shape)
    if run.copies:
        yield from _copies(run, "start")
    if fsdp:
        yield from _gathers(run, 0, "done")
    if run.loop:
        yield Segment("loop", "while")
    for layer in range(run.layers):
        yield from layer_segments(run, phase, layer, 0 if run.loop else layer)
    if run.loop:
        yield Segment("end-loop", "while")
    yield Segment("compute", "head_fusion", run.head.ps(tokens), component="head")


def _stacked(run: Run, phase: str) -> Iterator[Segment]:
    """All stages in one program: each tick computes everywhere, then shifts the activations."""
    tokens, per_stage = run.tokens(phase), run.layers // run.size("pp")
    for tick in range(run.microbatches + run.size("pp") - 1):
        for layer in range(per_stage):
            for segment in layer_segments(run, phase, layer, tick * per_stage + layer):
                yield replace(segment, tick=tick)
        op, shape = f"collective-permute.{tick}", (tokens, run.hidden)
        for segment in _reduced(run, op, 500 + tick, "collective-permute", "pp", shape):
            yield replace(segment, tick=tick)
    yield Segment("compute", "head_fusion", run.head.ps(tokens), component="head")


def _stage(run: Run, phase: str, stage: int) -> Iterator[Segment]:
    tokens, per_stage = run.tokens(phase), run.layers // run.size("pp")
    yield Segment("compute", "embed_fusion", run.embedding.ps(tokens), component="embedding")
    for layer in range(stage * per_stage, (stage + 1) * per_stage):
        yield from layer_segments(run, phase, layer, layer)


def handover_segments(run: Run, phase: str) -> tuple[Segment, ...]:
    """The small program that passes a microbatch to the next stage."""
    tokens = run.tokens(phase)
    shape = (tokens, run.hidden)
    return (
        Segment("compute", "pack_fusion", run.router.ps(tokens)),
        _sync(run, "collective-permute", "collective-permute", "pp", shape),
    )


def program_segments(run: Run, phase: str, stage: int | None = None) -> tuple[Segment, ...]:
    """The recipe of a phase's program, or of one stage's."""
    if stage is not None:
        return tuple(_stage(run, phase, stage))
    return tuple((_stacked if run.size("pp") > 1 else _whole)(run, phase))


def layer_cut(run: Run, layers: int, from_start: bool) -> slice:
    """Segments of a decode step's first or last layers, for profiles that cut a launch."""
    segments = program_segments(run, "decode")
    at = layers if from_start else run.layers - layers
    inside = (k for k, segment in enumerate(segments) if segment.layer == at)
    index = next(inside, len(segments) - 1)
    return slice(0, index) if from_start else slice(index, len(segments))
