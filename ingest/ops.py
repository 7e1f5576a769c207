"""Device events become ops: launch and step, category, model scope, and time of their own."""

from __future__ import annotations

import polars as pl

from xlahouse.ingest.hlo_transfer import KINDS
from xlahouse.ingest.launches import STEP
from xlahouse.ingest.self_time import with_self_time

_ESTIMATES = ("flops", "model_flops", "bytes_accessed", "hbm_bytes")
# Where no HLO is at hand the stem of the name decides; an issue says so.
_STEMS = {
    "control": r"^(?:while|call|conditional)\b",
    "collective": r"^(?:all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all"
    r"|collective-permute|collective-broadcast)\b",
    "copy": r"^(?:copy|slice|dynamic-slice|dynamic-update-slice)-(?:start|done)\b",
    "host_transfer": r"^(?:send|recv|infeed|outfeed)\b",
}


def finish_ops(ops: pl.DataFrame, launches: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Annotate ops.

    Args:
        ops: frames.OPS of all devices.
        launches: finished launches.
        facts: program_facts.FACTS.

    Returns:
        The ops table without run_id, plus on_async_line, kind, role, start_op, dtype and payload_bytes,
        and `inferred_category` (true where no HLO decided).
    """
    placed = _with_launch(ops, launches)
    known = placed.join(
        facts, on=["program_id", "op"], how="left", maintain_order="left", suffix="_hlo"
    )
    decided = known.with_columns(
        inferred_category=pl.col("category").is_null() & pl.col("traced_category").is_null(),
        opcode=pl.coalesce("opcode", "opcode_text"),
        module=pl.coalesce("module", "module_hlo"),
        category=pl.coalesce("traced_category", "category"),
        role=pl.when(pl.col("kernel").is_null()).then("role"),
        **{name: _unknown_on_custom_call(name) for name in _ESTIMATES},
    )
    inferred = _infer_category(decided)
    in_pair = pl.col("role").is_in(["start", "update", "done"]).fill_null(False)
    return with_self_time(inferred.with_columns(is_async=pl.col("on_async_line") | in_pair))


def _infer_category(ops: pl.DataFrame) -> pl.DataFrame:
    """Category, kind and role where no HLO decides: by the instruction's text, the category, the name."""
    base = pl.col("opcode_text").str.replace(r"-(?:start|update|done)$", "")
    kind = pl.coalesce(
        pl.when(base.is_in(KINDS)).then(base),
        pl.when(pl.col("hlo_category").is_in([*KINDS, "send-recv"])).then("hlo_category"),
    )
    # What a wrapper does stands in its name alone where the computation that it calls is not known.
    wraps = pl.col("opcode_text").str.contains(r"^(?:fusion|call|async)(?:-(?:start|done))?$")
    stem = pl.when(wraps.fill_null(False)).then("op").otherwise(pl.coalesce("opcode_text", "op"))
    by_name = (
        pl.when(stem.str.contains(pattern)).then(pl.lit(name)) for name, pattern in _STEMS.items()
    )
    unknown = pl.col("inferred_category")
    role = pl.col("opcode_text").str.extract(r"-(start|update|done)$")
    return ops.with_columns(
        kind=pl.when(unknown).then(kind).otherwise("kind"),
        role=pl.when(unknown).then(role).otherwise("role"),
        start_op=pl.when(unknown).then("operand_text").otherwise("start_op"),
        category=pl.coalesce(
            "category",
            pl.when(kind.is_not_null()).then(pl.lit("collective")),
            *by_name,
            pl.lit("compute"),
        ),
    )


def _unknown_on_custom_call(column: str) -> pl.Expr:
    """The compiler knows nothing of a custom call: its 0 means unknown."""
    opaque = pl.coalesce("opcode", "opcode_text") == "custom-call"
    return pl.when(~(opaque.fill_null(False) & (pl.col(column) == 0))).then(column)


def _with_launch(ops: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """By the reader's own key, else by containment in a launch of the device."""
    columns = ["launch", "launch_instance", *STEP]
    keyed = ops.filter(pl.col("launch_key").is_not_null())
    keyed = keyed.join(
        launches.select("device_id", "launch_key", "program_id", *columns),
        on=["device_id", "launch_key", "program_id"],
        how="left",
    )
    free = ops.filter(pl.col("launch_key").is_null()).sort("start_ps")
    opened = launches.sort("start_ps").select(
        "device_id",
        "start_ps",
        *columns,
        until=pl.col("start_ps") + pl.col("duration_ps"),
        program_of_launch="program_id",
        module_of_launch="module",
    )
    free = free.join_asof(opened, on="start_ps", by="device_id", check_sortedness=False)
    inside = pl.col("start_ps") < pl.col("until")
    named = [*columns, "program_of_launch", "module_of_launch"]
    free = free.with_columns(pl.when(inside).then(name).alias(name) for name in named)
    free = free.with_columns(
        program_id=pl.coalesce("program_id", "program_of_launch"),
        module=pl.coalesce("module", "module_of_launch"),
    ).drop("until", "program_of_launch", "module_of_launch")
    return pl.concat([keyed, free.select(keyed.columns)]).sort("device_id", "start_ps")
