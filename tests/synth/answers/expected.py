"""The answer of expected_traffic: a forward pass walked tensor by tensor, as the layouts are defined."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.synth import model
from tests.synth.describe import Run
from tests.synth.traffic import Row, traffic_volume

MARKED = ("prefill", "decode", "warmup")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a manifest states about a model, its work, and how it is split.

    `matrices` are weights that fsdp shards: (elements, axes that split it besides); layers with
    experts are those from `first_expert_layer` on.
    """

    mesh: dict[str, int]
    layers: int
    hidden: int
    vocabulary: int
    batch: int
    prompt_tokens: int
    microbatches: int = 1
    stage_layers: int | None = None
    experts: int = 0
    chosen: int = 1
    capacity: float = 1.0
    first_expert_layer: int = 0
    matrices: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

    def size(self, axis: str) -> int:
        """Devices along an axis."""
        return self.mesh.get(axis, 1)

    @property
    def sequences(self) -> int:
        """Of a device: dp, ep and fsdp split the batch."""
        return self.batch // (self.size("dp") * self.size("ep") * self.size("fsdp"))


Move = tuple[str, str, float]  # axis, kind, elements of S


def forward(layout: Layout, prefill: bool) -> Iterator[Move]:
    """Every collective of a pass in which a device takes part, in order."""
    tokens = layout.prompt_tokens if prefill else 1
    yield from _weights(layout)
    rows = layout.sequences * tokens
    yield from _scattered(layout, prefill, rows)  # after the embedding
    stages = layout.size("pp")
    leading = layout.layers - (stages * layout.stage_layers if stages > 1 else 0)
    for layer in range(leading):
        yield from _layer(layout, prefill, rows, layer)
    if stages > 1:
        for _tick in range(layout.microbatches + stages - 1):
            yield from _tick_of(layout, prefill, rows // layout.microbatches, leading)
    yield from _gathered(layout, prefill, rows)  # after the last norm
    for axis in ("tp", "sp"):
        if layout.size(axis) > 1:
            yield axis, "all-gather", layout.sequences * layout.vocabulary


def _tick_of(layout: Layout, prefill: bool, rows: int, leading: int) -> Iterator[Move]:
    for layer in range(leading, leading + layout.stage_layers):
        yield from _layer(layout, prefill, rows, layer)
    share = layout.size("sp") if prefill else 1
    yield "pp", "collective-permute", rows * layout.hidden / share


def _layer(layout: Layout, prefill: bool, rows: int, layer: int) -> Iterator[Move]:
    for half in ("attention", "mlp"):
        yield from _gathered(layout, prefill, rows)
        routed = layout.size("ep") > 1 and layout.experts and layer >= layout.first_expert_layer
        if half == "mlp" and routed:
            share = rows * layout.chosen / layout.experts * layout.capacity
            places = min(math.ceil(share), rows)
            for _way in ("dispatch", "combine"):
                yield "ep", "all-to-all", layout.experts * places * layout.hidden
        yield from _scattered(layout, prefill, rows)


def _gathered(layout: Layout, prefill: bool, rows: int) -> Iterator[Move]:
    if layout.size("sp") > 1 and prefill:
        yield "sp", "all-gather", rows * layout.hidden


def _scattered(layout: Layout, prefill: bool, rows: int) -> Iterator[Move]:
    """What ends a sum over the parts of a weight."""
    if layout.size("tp") > 1:
        yield "tp", "all-reduce", rows * layout.hidden
    if layout.size("sp") > 1:
        yield "sp", "reduce-scatter" if prefill else "all-reduce", rows * layout.hidden


def _weights(layout: Layout) -> Iterator[Move]:
    if layout.size("fsdp") > 1:
        for elements, axes in layout.matrices:
            yield "fsdp", "all-gather", elements / math.prod(map(layout.size, axes))


Expected = dict[tuple[str, str, str], tuple[int, float]]  # (phase, axis, kind) -> count, elements


def expected(layout: Layout, passes: Counter[tuple[str, bool]]) -> Expected:
    """Sums over the device passes given: (phase, is it a prefill) -> how many."""
    counts: Counter = Counter()
    elements: dict[tuple, float] = defaultdict(float)
    for (phase, prefill), number in passes.items():
        for axis, kind, size in forward(layout, prefill):
            counts[phase, axis, kind] += number
            elements[phase, axis, kind] += number * size
    return {key: (count, elements[key]) for key, count in counts.items()}


def layout_of(run: Run) -> Layout:
    """What a synthetic run's manifest tells."""
    return Layout(
        mesh=dict(run.mesh),
        layers=run.layers,
        hidden=run.hidden,
        vocabulary=model.VOCABULARY,
        batch=run.batch,
        prompt_tokens=run.prompt_tokens,
        microbatches=run.microbatches,
        stage_layers=run.layers // run.size("pp") if run.scheduled_ticks else None,
        experts=model.experts(run),
        capacity=model.CAPACITY,
    )


def _problem(run: Run) -> str | None:
    """Why nothing can be expected of a run."""
    layout, parts = layout_of(run), run.microbatches
    if layout.batch % (layout.size("dp") * layout.size("ep") * layout.size("fsdp")):
        return "dp, ep and fsdp do not divide the batch"
    if layout.size("pp") > 1 and layout.stage_layers is None:
        return "no manifest tells the layers of a stage and the microbatches"
    if layout.size("pp") > 1 and layout.sequences % parts:
        return "microbatches do not divide a device's sequences"
    return None


def _passes(run: Run) -> Counter[tuple[str, bool]]:
    """Passes of traced devices whose planes hold them."""
    return Counter(
        (each.label, each.step == 0)
        for each in run.passes
        for position in run.positions
        if each.label in MARKED and run.saw(position, each.index)
    )


def expected_traffic(run: Run) -> list[Row]:
    """Rows of expected_traffic_v1: what is expected, what is measured, or both."""
    measured: dict[tuple, list[int]] = defaultdict(lambda: [0, 0])
    for row in traffic_volume(run):
        total = measured[row["phase"], row["axis"], row["kind"]]
        total[0] += row["collectives"]
        total[1] += row["payload_bytes"]
    problem = _problem(run)
    wanted = {} if problem else expected(layout_of(run), _passes(run))
    return [_row(run, key, problem, wanted, measured) for key in {*wanted, *measured}]


def planned_traffic(run: Run) -> list[Row]:
    """Rows of planned_traffic_v1: means over passes; nothing was compiled beside the run."""
    passes: Counter[str] = Counter()
    for (label, _), count in _passes(run).items():
        passes[label] += count
    rows = []
    for row in expected_traffic(run):
        count = passes[row["phase"]]

        def mean(value: object, count: int = count) -> float | None:
            return value / count if count and value is not None else None

        planned, measured = row["expected_payload_bytes"], row["measured_payload_bytes"]
        rows.append(
            {
                **{name: row[name] for name in ("phase", "axis", "kind", "expected_problem")},
                "planned_count": mean(row["expected_count"]),
                "compiled_count": None,
                "measured_count": mean(row["measured_count"]),
                "planned_payload_bytes": mean(planned),
                "compiled_payload_bytes": None,
                "measured_payload_bytes": mean(measured),
                "decided_by": "plan" if count and planned == measured else None,
            }
        )
    return rows


def step_load(run: Run) -> list[Row]:
    """Rows of step_load_v1: the means over passes; no program says where its values lie."""
    passes = _passes(run)
    rows = []
    for phase in ("prefill", "decode"):
        count = sum(number for (label, _), number in passes.items() if label == phase)
        own = [row for row in traffic_volume(run) if row["phase"] == phase]
        rows += [
            {
                "phase": phase,
                "metric": metric,
                "source": "measured",
                "value": sum(row[metric] for row in own) / count,
            }
            for metric in ("collectives", "payload_bytes", "wire_bytes")
            if count
        ]
    return rows


def _row(run: Run, key: tuple, problem: str | None, wanted: Expected, measured: dict) -> Row:
    phase, axis, kind = key
    if problem is None and phase not in MARKED:
        problem = "the passes of this phase are not marked"
    if problem is None and key[1:] == ("fsdp", "all-gather"):
        problem = "the matrices of this model are not known"
    count, elements = wanted.get(key, (0, 0.0))
    size = None if problem else round(elements * run.item_bytes)
    seen, moved = measured.get(key, (0, 0))
    return {
        "phase": phase,
        "axis": axis,
        "kind": kind,
        "expected_count": None if problem else count,
        "measured_count": seen,
        "expected_payload_bytes": size,
        "measured_payload_bytes": moved,
        "ratio": moved / size if size else None,
        "measured_dtype": run.dtype if seen else None,
        "expected_problem": problem,
    }
