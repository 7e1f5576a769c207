"""Turns device events into ops: launch and step, category, model scope, self time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.op_events import OpEvents, number_keys
from xlahouse.ingest.events.packing import Packing
from xlahouse.ingest.hlo import op_names
from xlahouse.ingest.hlo.scopes import component_of, layer_of
from xlahouse.ingest.hlo.transfer import COLLECTIVE_KINDS
from xlahouse.ingest.nesting.self_time import self_times
from xlahouse.ingest.tables.op_launches import launch_rows
from xlahouse.ingest.tables.pipeline import TickSchedule, place_in_pipeline
from xlahouse.ingest.tables.placed_ops import OF_LAUNCH, PlacedOps, device_places

_ESTIMATES = ("flops", "model_flops", "bytes_accessed", "hbm_bytes")


def finish_ops(
    ops: OpEvents, launches: pl.DataFrame, facts: pl.DataFrame, schedule: TickSchedule
) -> PlacedOps:
    """Annotate ops.

    Args:
        ops: ops of some devices.
        launches: finished launches of these devices, ordered by device and start.
        facts: program_facts.FACT_COLUMNS.
        schedule: of the run's pipeline.

    Returns:
        ops whose kinds have the ops table's columns, plus on_async_line, kind, role, start_op, dtype,
        payload_bytes, masked, communicates, and `inferred_category` (true where no HLO decided).
    """
    ops = _in_order(ops)
    device_id, start, duration = (
        ops.events[name].to_numpy() for name in ("device_id", "start_ps", "duration_ps")
    )
    devices, device = device_places(device_id)
    launch = launch_rows(ops, launches)
    in_use = _kinds_in_use(ops, launches, launch, device if schedule.stage_of else None)
    kinds = place_in_pipeline(_decided(in_use.kinds, facts), schedule)
    lines = kinds.select(pl.struct("line", "lane").rank("dense"))["line"].to_numpy()
    packing = Packing((len(devices), int(lines.max(initial=0)) + 1))
    line = packing.pack(device, lines.astype(np.int64).take(in_use.kind))
    of_launch = launches.select(OF_LAUNCH)
    return PlacedOps(
        kinds=kinds,
        launches=pl.concat([of_launch, frames.no_row(of_launch)]),
        device_id=device_id,
        kind=in_use.kind,
        launch=np.where(launch < 0, launches.height, launch),
        start_ps=start,
        duration_ps=duration,
        self_ps=self_times(line, start, duration),
    )


def _in_order(ops: OpEvents) -> OpEvents:
    """By device and start, without a sort where they are in order, as mostly."""
    device, start = (ops.events[name].to_numpy() for name in ("device_id", "start_ps"))
    if not (np.diff(device) == 0).all():
        order = np.lexsort((start, device))
    elif (np.diff(start) < 0).any():
        order = np.argsort(start, kind="stable")
    else:
        return ops
    return OpEvents(ops.kinds, ops.events[order])


class _KindsInUse(NamedTuple):
    """Kinds of ops, split by the program and module of their launches."""

    kinds: pl.DataFrame  # with device_id, NULL where kinds are not split by device
    kind: Integers  # of each op, its row of kinds


def _kinds_in_use(
    ops: OpEvents, launches: pl.DataFrame, launch: Integers, device: Integers | None
) -> _KindsInUse:
    """Kinds with the program and module of their launch where their own are unknown.

    Args:
        ops: the ops, by device.
        launches: of these devices.
        launch: row of each op's launch, -1 for none.
        device: of each op, its device's place; None: kinds are not split by device.
    """
    programs, of_launch = _programs(launches)
    is_open = ops.kinds.select(pl.any_horizontal(pl.col("program_id", "module").is_null()))
    kind = ops.events["kind"].to_numpy().astype(np.int64)
    program = np.where(is_open.to_series().to_numpy().take(kind), of_launch.take(launch), 0)
    place = np.zeros_like(kind) if device is None else device
    devices = ops.events["device_id"].unique().sort()
    splits = 1 if device is None else len(devices)
    packing = Packing((ops.kinds.height, programs.height, splits))
    found, of_op = number_keys(packing.pack(kind, program, place), packing.bound)
    its_kind, its_program, its_place = packing.unpack(found)
    kinds = pl.concat([ops.kinds[its_kind], programs[its_program]], how="horizontal")
    kinds = kinds.with_columns(
        program_id=pl.coalesce("program_id", "program_of_launch"),
        module=pl.coalesce("module", "module_of_launch"),
        device_id=pl.lit(None, pl.Int64) if device is None else devices.gather(its_place),
    )
    return _KindsInUse(kinds.drop(programs.columns), of_op)


def _programs(launches: pl.DataFrame) -> tuple[pl.DataFrame, Integers]:
    """(program_of_launch and module_of_launch, distinct, after a row of NULLs; row of each launch).

    The row of launch -1, the last one, is 0.
    """
    programs = launches.select(program_of_launch="program_id", module_of_launch="module")
    distinct, place = frames.distinct(programs)
    of_launch = np.append(place + 1, 0)
    return pl.concat([frames.no_row(distinct), distinct]), of_launch


def _decided(kinds: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Kinds with facts from the HLO, or with inferred facts where there is no HLO."""
    known = kinds.join(
        facts, on=["program_id", "op"], how="left", maintain_order="left", suffix="_hlo"
    )
    decided = known.with_columns(
        inferred_category=pl.col("category").is_null() & pl.col("traced_category").is_null(),
        opcode=pl.coalesce("opcode", "opcode_text"),
        module=pl.coalesce("module", "module_hlo"),
        category=pl.coalesce("traced_category", "category"),
        payload_bytes=pl.coalesce("traced_bytes", "payload_bytes"),
        payload_is_bound=pl.col("traced_bytes").is_null() & pl.col("payload_is_bound"),
        **_scopes(known["scope"]),
        role=pl.when(pl.col("kernel").is_null()).then("role"),
        communicates=pl.coalesce(
            "communicates",
            pl.when(pl.col("opcode_text").is_null() & pl.col("kernel").is_null()).then(
                op_names.may_communicate(pl.col("op"), pl.col("hlo_category"))
            ),
        ),
        **{name: _unknown_on_custom_call(name) for name in _ESTIMATES},
    )
    inferred = _infer_category(decided) if decided["inferred_category"].any() else decided
    in_pair = pl.col("role").is_in(["start", "update", "done"]).fill_null(False)
    of_kernel = pl.when(pl.col("category") == "compute").then(
        pl.coalesce(op_names.component_of(pl.col("kernel")), op_names.component_of(pl.col("op")))
    )
    return inferred.with_columns(
        is_async=pl.col("on_async_line") | in_pair, component=pl.coalesce("component", of_kernel)
    )


def _scopes(paths: pl.Series) -> dict[str, pl.Expr]:
    """Layer and component: the HLO's, else those in the path that the event states."""
    distinct = paths.drop_nulls().unique().to_list()
    found: dict[str, pl.Expr] = {}
    for column, read, kind in (
        ("layer", layer_of, pl.Int64),
        ("component", component_of, pl.String),
    ):
        of_path = {path: read(path) for path in distinct}
        stated = paths.replace_strict(of_path, default=None, return_dtype=kind)
        found[column] = pl.coalesce(column, stated)
    return found


def _infer_category(ops: pl.DataFrame) -> pl.DataFrame:
    """Category, kind and role where no HLO decides: by the instruction's text, the category, the name."""
    text, name, traced = pl.col("opcode_text"), pl.col("op"), pl.col("hlo_category")
    base = text.str.replace(r"-(?:start|update|done)$", "")
    traced_kind = traced.str.replace(" fusion", "", literal=True)
    traced_kind = traced_kind.replace("all-reduce-scatter", "reduce-scatter")
    nameless = text.is_null()
    kind = pl.coalesce(
        pl.when(base.is_in(COLLECTIVE_KINDS)).then(base),
        pl.when(traced_kind.is_in([*COLLECTIVE_KINDS, "send-recv"])).then(traced_kind),
        "kind",
        pl.when(nameless).then(op_names.kind_of(name)),
    )
    # Where a wrapper's computation is unknown, only its name states what it does.
    wraps = text.str.contains(r"^(?:fusion|call|async)(?:-(?:start|done))?$").fill_null(False)
    stem = pl.when(wraps).then("op").otherwise(pl.coalesce("opcode_text", "op"))
    role = pl.coalesce(
        op_names.role_of(text),
        "role",
        op_names.role_of(pl.when(nameless).then(name)),
        op_names.role_of(traced),
    )
    waits = nameless & role.is_in(["update", "done"])
    start_op = pl.coalesce("operand_text", "start_op", pl.when(waits).then(op_names.start_of(name)))
    unknown = pl.col("inferred_category")
    wrapped = _payload_of_wrapped(kind)
    return ops.with_columns(
        kind=pl.when(unknown).then(kind).otherwise("kind"),
        payload_bytes=pl.when(unknown).then(wrapped).otherwise("payload_bytes"),
        role=pl.when(unknown & pl.col("kernel").is_null()).then(role).otherwise("role"),
        start_op=pl.when(unknown).then(start_op).otherwise("start_op"),
        category=pl.coalesce(
            "category",
            pl.when(kind.is_not_null()).then(pl.lit("collective")),
            op_names.category_of(stem),
            pl.when(op_names.category_of(traced) == "collective").then(pl.lit("collective")),
            pl.lit("compute"),
        ),
    )


def _payload_of_wrapped(kind: pl.Expr) -> pl.Expr:
    """Payload (METRICS, Bytes) of the transfer in a wrapper; NULL where its shapes do not fit the kind."""
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
    """An estimate that hardware can have; the compiler has none for a custom call: its 0 means unknown."""
    opaque = pl.coalesce("opcode", "opcode_text") == "custom-call"
    unknown = opaque.fill_null(False) & (pl.col(column) == 0)
    return pl.when(~unknown & ~impossible(column)).then(column)


def impossible(column: str) -> pl.Expr:
    """Whether a number is beyond any that hardware has; a NULL is not."""
    return ~pl.col(column).is_between(-frames.LARGEST, frames.LARGEST).fill_null(True)


def impossible_estimates(kinds: pl.DataFrame) -> int:
    """Kinds of ops that state such a number."""
    stated = [name for name in _ESTIMATES if name in kinds.columns]
    return kinds.filter(pl.any_horizontal(map(impossible, stated))).height
