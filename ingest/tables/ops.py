"""Device events become ops: launch and step, category, model scope, and time of their own."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.op_events import OpEvents, number_keys
from xlahouse.ingest.events.spans import starts_of_runs
from xlahouse.ingest.hlo.transfer import KINDS
from xlahouse.ingest.tables.op_launches import launch_rows
from xlahouse.ingest.tables.pipeline import Schedule, place_in_pipeline
from xlahouse.ingest.tables.placed_ops import OF_LAUNCH, PlacedOps
from xlahouse.ingest.tables.self_time import self_times

Integers = NDArray[np.int64]
_ESTIMATES = ("flops", "model_flops", "bytes_accessed", "hbm_bytes")
# Where no HLO is at hand the stem of the name decides; an issue says so.
_STEMS = {
    "control": r"^(?:while|call|conditional)\b",
    "collective": r"^(?:all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all"
    r"|collective-permute|collective-broadcast)\b",
    "copy": r"^(?:copy|slice|dynamic-slice|dynamic-update-slice)-(?:start|done)\b",
    "host_transfer": r"^(?:send|recv|infeed|outfeed)\b",
}


def finish_ops(
    ops: OpEvents, launches: pl.DataFrame, facts: pl.DataFrame, schedule: Schedule
) -> PlacedOps:
    """Annotate ops.

    Args:
        ops: ops of some devices.
        launches: finished launches of these devices, ordered by device and start.
        facts: program_facts.FACTS.
        schedule: of the run's pipeline.

    Returns:
        ops whose kinds have the ops table's columns, plus on_async_line, kind, role, start_op, dtype,
        payload_bytes, masked, and `inferred_category` (true where no HLO decided).
    """
    ops = _in_order(ops)
    device_id, start, duration = (
        ops.events[name].to_numpy() for name in ("device_id", "start_ps", "duration_ps")
    )
    first = starts_of_runs(device_id)
    launch = launch_rows(ops, launches)
    kinds, kind = _kinds_by_launch(ops, launches, launch, bool(schedule.stage_of))
    kinds = place_in_pipeline(_decided(kinds, facts), schedule)
    lines = (
        kinds.select(pl.struct("line", "lane").rank("dense"))["line"].to_numpy().astype(np.int64)
    )
    line = lines.take(kind)
    if len(first) > 1:
        device = np.repeat(np.arange(len(first)), np.diff(first, append=len(device_id)))
        line += device * (lines.max(initial=0) + 1)
    of_launch = launches.select(OF_LAUNCH)
    return PlacedOps(
        kinds=kinds,
        launches=pl.concat([of_launch, frames.no_row(of_launch)]),
        device_id=device_id,
        kind=kind,
        launch=np.where(launch < 0, launches.height, launch),
        start_ps=start,
        duration_ps=duration,
        self_ps=self_times(line, start, duration),
    )


def _in_order(ops: OpEvents) -> OpEvents:
    """By device and start; lines come in order, and sorting what is sorted is quick."""
    device, start = (ops.events[name].to_numpy() for name in ("device_id", "start_ps"))
    if not (np.diff(device) == 0).all():
        order = np.lexsort((start, device))
    elif (np.diff(start) < 0).any():
        order = np.argsort(start, kind="stable")
    else:
        return ops
    return OpEvents(ops.kinds, ops.events[order])


def _kinds_by_launch(
    ops: OpEvents, launches: pl.DataFrame, launch: Integers, by_device: bool
) -> tuple[pl.DataFrame, Integers]:
    """(kinds with the program and module of their launch where their own are unknown; kind of each op).

    by_device: whether kinds of different devices are different, and have `device_id`.
    """
    kind = ops.events["kind"].to_numpy().astype(np.int64)
    programs = launches.select(program_of_launch="program_id", module_of_launch="module")
    distinct = programs.unique(maintain_order=True).with_row_index("code")
    both = ["program_of_launch", "module_of_launch"]
    codes = programs.join(distinct, on=both, how="left", nulls_equal=True, maintain_order="left")
    open_kind = ops.kinds.select(pl.any_horizontal(pl.col("program_id", "module").is_null()))
    of_launch = np.append(codes["code"].to_numpy().astype(np.int64) + 1, 0)  # row -1: no launch
    code = np.where(open_kind.to_series().to_numpy().take(kind), of_launch.take(launch), 0)
    width, key = distinct.height + 1, kind
    key = key * width + code
    devices = ops.events["device_id"].unique().sort()
    if by_device:
        place = np.searchsorted(devices.to_numpy(), ops.events["device_id"].to_numpy())
        key = key * len(devices) + place
    splits = len(devices) if by_device else 1
    found, kind = number_keys(key, ops.kinds.height * width * splits)
    named = distinct.drop("code")
    of_launches = pl.concat([frames.no_row(named), named])[found // splits % width]
    kinds = pl.concat([ops.kinds[found // splits // width], of_launches], how="horizontal")
    device = devices.gather(found % splits) if by_device else pl.lit(None, pl.Int64)
    return kinds.with_columns(
        program_id=pl.coalesce("program_id", "program_of_launch"),
        module=pl.coalesce("module", "module_of_launch"),
        device_id=device,
    ).drop(both), kind


def _decided(kinds: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """What the HLO says of each kind, and where it says nothing, what can be inferred."""
    known = kinds.join(
        facts, on=["program_id", "op"], how="left", maintain_order="left", suffix="_hlo"
    )
    decided = known.with_columns(
        inferred_category=pl.col("category").is_null() & pl.col("traced_category").is_null(),
        opcode=pl.coalesce("opcode", "opcode_text"),
        module=pl.coalesce("module", "module_hlo"),
        category=pl.coalesce("traced_category", "category"),
        payload_bytes=pl.coalesce("traced_bytes", "payload_bytes"),
        role=pl.when(pl.col("kernel").is_null()).then("role"),
        **{name: _unknown_on_custom_call(name) for name in _ESTIMATES},
    )
    inferred = _infer_category(decided)
    in_pair = pl.col("role").is_in(["start", "update", "done"]).fill_null(False)
    return inferred.with_columns(is_async=pl.col("on_async_line") | in_pair)


def _infer_category(ops: pl.DataFrame) -> pl.DataFrame:
    """Category, kind and role where no HLO decides: by the instruction's text, the category, the name."""
    base = pl.col("opcode_text").str.replace(r"-(?:start|update|done)$", "")
    told = pl.col("hlo_category").str.replace(" fusion", "", literal=True)
    told = told.replace("all-reduce-scatter", "reduce-scatter")
    kind = pl.coalesce(
        pl.when(base.is_in(KINDS)).then(base),
        pl.when(told.is_in([*KINDS, "send-recv"])).then(told),
        "kind",
    )
    # What a wrapper does stands in its name alone where the computation that it calls is not known.
    wraps = pl.col("opcode_text").str.contains(r"^(?:fusion|call|async)(?:-(?:start|done))?$")
    stem = pl.when(wraps.fill_null(False)).then("op").otherwise(pl.coalesce("opcode_text", "op"))
    by_name = (
        pl.when(stem.str.contains(pattern)).then(pl.lit(name)) for name, pattern in _STEMS.items()
    )
    unknown = pl.col("inferred_category")
    wrapped = _payload_of_wrapped(kind)
    role = pl.col("opcode_text").str.extract(r"-(start|update|done)$")
    return ops.with_columns(
        kind=pl.when(unknown).then(kind).otherwise("kind"),
        payload_bytes=pl.when(unknown).then(wrapped).otherwise("payload_bytes"),
        role=pl.when(unknown).then(role).otherwise("role"),
        start_op=pl.when(unknown).then("operand_text").otherwise("start_op"),
        category=pl.coalesce(
            "category",
            pl.when(kind.is_not_null()).then(pl.lit("collective")),
            *by_name,
            pl.lit("compute"),
        ),
    )


def _payload_of_wrapped(kind: pl.Expr) -> pl.Expr:
    """Payload (METRICS, Bytes) of what a wrapper moves; NULL where its shapes do not fit the kind."""
    taken, given = pl.col("operand_bytes"), pl.col("result_bytes")
    return (
        pl.when((kind == "all-gather") & (given > taken))
        .then(given)
        .when((kind == "reduce-scatter") & (given < taken))
        .then(taken)
        .when(~kind.is_in(["all-gather", "reduce-scatter"]) & (given == taken))
        .then(taken)
    )


def _unknown_on_custom_call(column: str) -> pl.Expr:
    """The compiler knows nothing of a custom call: its 0 means unknown."""
    opaque = pl.coalesce("opcode", "opcode_text") == "custom-call"
    return pl.when(~(opaque.fill_null(False) & (pl.col(column) == 0))).then(column)
