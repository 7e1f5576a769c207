"""Ops of a TPU from a Chrome trace: arguments are parsed once for all events that share them."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import msgspec
import polars as pl

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.ingest.chrome.rows import number
from xlahouse.ingest.events import frames
from xlahouse.ingest.events.frames import ColumnTypes, PlaneEvents
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.hlo.module_text import program_of_instructions
from xlahouse.ingest.hlo.names import with_metadata
from xlahouse.ingest.hlo.program import Program

# Arguments that differ from one execution of an op to the next.
_VOLATILE = r'"(?:device_(?:offset|duration)_ps|run_id|flow|id|all_reduce_unique_id)":"[^"]*",?'
_STEM = r"^%?([^\s=]+)"  # of an instruction's text: its name
_OP_KINDS: ColumnTypes = {
    "kind": pl.UInt32,
    "hlo_category": pl.String,
    "long_name": pl.String,
    "tf_op": pl.String,
    "source": pl.String,
    "flops": pl.Float64,
    "model_flops": pl.Float64,
    "bytes_accessed": pl.Float64,
    "program_id": pl.UInt64,
}


TEXTS: ColumnTypes = {
    "program_id": pl.UInt64,
    "module": pl.String,
    "long_name": pl.String,
    "tf_op": pl.String,
    "source": pl.String,
}
_TOLD = ("long_name", "tf_op", "source")


class _OpArgs(msgspec.Struct):
    """Arguments of an op. Exports write all of them as strings; numbers are read too."""

    hlo_category: object = None  # such as convolution fusion
    long_name: object = None  # the instruction's HLO text
    tf_op: object = None  # path in the model
    source: object = None  # file and line
    flops: object = None  # of one execution, as the compiler counts them
    model_flops: object = None  # of one execution, as the model's mathematics counts them
    bytes_accessed: object = None  # by one execution, from all memories
    program_id: object = None  # of the program


def read_ops(rows: pl.DataFrame, async_line: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(frames.OPS without device_id, program_id and module NULL unless the event names them; of each row
    its framework op and source line as `tf_op` and `source`, and its instruction as `long_name`).

    Args:
        rows: thread, name, args, start_ps, duration_ps of ops, waits and steps.
        async_line: the line whose events are named by their instruction, not by themselves.
    """
    same = rows.with_columns(constant=pl.col("args").str.replace_all(_VOLATILE, ""))
    kinds = same.drop_nulls("constant").unique("constant", keep="first", maintain_order=True)
    kinds = kinds.select("constant", "args").with_row_index("kind")
    numbered = same.join(
        kinds.select("constant", "kind"), on="constant", how="left", maintain_order="left"
    )
    told = pl.DataFrame(
        [(kind, *_facts(args)) for kind, args in kinds.select("kind", "args").iter_rows()],
        schema=_OP_KINDS,
        orient="row",
    ).with_columns(
        stem=pl.col("long_name").str.extract(_STEM),
        opcode_text=pl.col("long_name").str.extract(r"=\s.*?\s?([a-z][a-z0-9-]*)\("),
        operand_text=pl.col("long_name").str.extract(r"-(?:done|update)\([^%]*%([^\s,)]+)"),
    )
    known = numbered.join(told, on="kind", how="left", maintain_order="left")
    on_async_line = pl.col("thread") == async_line
    ops = known.with_columns(
        op=pl.when(on_async_line).then(pl.coalesce("stem", "name")).otherwise("name"),
        line="thread",
        on_async_line=on_async_line,
    )
    return frames.conform(ops, frames.OPS), ops.select(_TOLD)


def _facts(args: str) -> tuple[object, ...]:
    """A row of _OP_KINDS without `kind`; all NULL where the arguments are not an object."""
    try:
        told = msgspec.json.decode(args, type=_OpArgs)
    except JSON_FAULTS:
        told = _OpArgs()
    words = (_word(value) for value in (told.hlo_category, told.long_name, told.tf_op, told.source))
    numbers = (number(value) for value in (told.flops, told.model_flops, told.bytes_accessed))
    return *words, *numbers, _identity(told.program_id)


def _word(value: object) -> str | None:
    return None if value is None or value == "" else str(value)


def _identity(value: object) -> int | None:
    if not isinstance(value, str | int | float):
        return None
    try:
        return int(value) % (1 << 64)
    except ValueError:
        return None


def texts_of_ops(ops: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    """TEXTS: the instructions of ops of one device, each once; program_id is NULL for ops of no launch.

    Args:
        ops: frames.OPS with program_id and module.
        told: of each its long_name, tf_op and source.
    """
    texts = pl.concat([ops.select("program_id", "module"), told], how="horizontal")
    texts = texts.drop_nulls("long_name").filter(
        pl.col("long_name").str.contains(" = ", literal=True)
    )
    return frames.conform(_distinct(texts), TEXTS)


def _distinct(texts: pl.DataFrame) -> pl.DataFrame:
    return texts.unique(["program_id", "long_name"], keep="first", maintain_order=True)


def number_without_launch(
    planes: list[PlaneEvents], of_devices: list[pl.DataFrame]
) -> list[pl.DataFrame]:
    """Give ops that no launch and no argument names a program of one: their own, made from their texts.

    Only in a file that knows no program: else such an op may be of one that it knows. An op whose name
    has several texts stays without, as it may be of several programs.

    Args:
        planes: of the file; their ops are numbered.
        of_devices: texts_of_ops of each device.

    Returns:
        The same texts with that number; texts without a program are left out.
    """
    named = [frame.with_columns(op=pl.col("long_name").str.extract(_STEM)) for frame in of_devices]
    lacking = frames.stack(named, TEXTS | {"op": pl.String}).filter(pl.col("program_id").is_null())
    once = lacking.unique("long_name", maintain_order=True).filter(pl.col("op").is_unique())
    numbered = [frame.drop_nulls("program_id").select(*TEXTS) for frame in named]
    knows_programs = any(not plane.launches.is_empty() for plane in planes)
    if once.is_empty() or knows_programs or any(not frame.is_empty() for frame in numbered):
        return numbered
    written = "\n".join(sorted(once["long_name"]))
    number = pl.lit(int.from_bytes(sha256(written.encode()).digest()[:8], "big"), pl.UInt64)
    mine = pl.col("program_id").is_null() & pl.col("op").is_in(once["op"].to_list())
    for place, plane in enumerate(planes):
        ops = plane.ops.with_columns(program_id=pl.when(mine).then(number).otherwise("program_id"))
        planes[place] = replace(plane, ops=ops)
    return [*numbered, frames.conform(once.with_columns(program_id=number), TEXTS)]


def programs_of_texts(
    of_devices: list[pl.DataFrame], source: str
) -> tuple[list[Program], list[Issue]]:
    """(programs of the instructions, findings about instructions that could not be read).

    Devices run the same programs, and one device may show ops that another lacks.

    Args:
        of_devices: texts_of_ops of each device.
        source: the file, for issues.
    """
    texts = _distinct(frames.stack(of_devices, TEXTS))
    programs, issues = [], []
    for (program_id,), group in texts.group_by(["program_id"], maintain_order=True):
        module = group["module"].drop_nulls().first() or ""
        lines = [with_metadata(*row) for row in group.select(_TOLD).iter_rows()]
        read = program_of_instructions(lines, int(str(program_id)), str(module), source)
        programs.append(read.program)
        issues += read.issues(source)
    return programs, issues
