"""Makes an assembled run of programs that did not run a compiled one: it has no times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from xlahouse.capture.compiled_facts import PROGRAMS, CompiledRun
from xlahouse.ingest.events.codes_of_programs import (
    COLLECTIVE_WITHOUT_GROUP,
    COLLECTIVE_WITHOUT_PAYLOAD,
    EXECUTIONS_UNKNOWN,
)
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.hlo.program_facts import ProgramFacts
from xlahouse.ingest.tables.assemble import AssembledRun, WorldParts
from xlahouse.ingest.tables.payloads import summable

_OP = ["program_id", "op"]
_TAKEN = ("module", "kind", "dtype", "payload_bytes", "layer", "component")
_MEMORY = ("argument_bytes", "output_bytes", "alias_bytes", "temp_bytes", "peak_bytes")


@dataclass(frozen=True)
class Said:
    """What compile wrote beside a run's programs."""

    run: CompiledRun  # the contents of compiled.json
    phases: Mapping[int, str]  # program id -> prefill or decode

    @property
    def coords(self) -> list[list[int]]:
        """[device id] -> (x, y, z) of its chip."""
        places = next(iter(self.run.programs.values())).devices if self.run.programs else []
        of = {place.id: place.coords for place in places}
        return [of.get(number, []) for number in range(max(of, default=-1) + 1)]

    def columns(self, damaged: bool) -> dict[str, object]:
        """Columns of the run's row. damaged: whether a program could not be read."""
        lacking = len(self.phases) < len(self.run.programs)
        return {"status": "partial" if damaged or lacking else "complete"}


def as_compiled(built: AssembledRun, said: Said) -> AssembledRun:
    """The run with rows of `programs` and `program_collectives` in place of launches and ops."""
    worlds, issues = [], list(built.issues)
    for world in built.worlds:
        rows = _with_step(
            program_collectives(
                world.facts,
                world.executed,
                world.tables["replica_groups"],
                world.tables["devices"],
            ),
            said,
        )
        issues += _findings(rows, built.source)
        worlds.append(replace(world, tables=_tables(world, rows, said)))
    return replace(built, worlds=worlds, issues=issues, hosts=[])


def _tables(world: WorldParts, transfers: pl.DataFrame, said: Said) -> dict[str, pl.DataFrame]:
    number = world.tables["devices"]["world"].first()
    in_world = pl.lit(number, pl.Int64).alias("world")
    kinds = {each.device_kind for each in said.run.programs.values()}
    kind = kinds.pop() if len(kinds) == 1 else None
    core = None if kind is None else "tensorcore"
    return world.tables | {
        "devices": world.tables["devices"].with_columns(
            kind=pl.lit(kind, pl.String), core=pl.lit(core, pl.String)
        ),
        "clocks": world.tables["clocks"].clear(),
        "programs": _with_step(world.tables["programs"], said).with_columns(
            *_statements(world.tables["programs"], said)
        ),
        "program_collectives": transfers.with_columns(in_world),
    }


def _with_step(rows: pl.DataFrame, said: Said) -> pl.DataFrame:
    """Rows with the phase and the step of their program."""
    phase = pl.col("program_id").replace_strict(
        dict(said.phases), default=None, return_dtype=pl.String
    )
    steps = {name: step for step, name in enumerate(PROGRAMS)}
    return rows.with_columns(phase=phase).with_columns(
        step=pl.col("phase").replace_strict(steps, default=None, return_dtype=pl.Int64)
    )


def _statements(programs: pl.DataFrame, said: Said) -> list[pl.Series]:
    """Columns that the compiler states of each program."""
    of_program = [
        said.run.programs.get(said.phases.get(number, "")) for number in programs["program_id"]
    ]
    packages = ", ".join(f"{name} {number}" for name, number in said.run.compiler.items())
    same = {
        "topology": said.run.topology,
        "compiler": packages,
        "flags": said.run.flags,
        "source": "compiled",
    }
    stated = {
        "code_bytes": [None if each is None else each.generated_code_bytes for each in of_program],
        **{
            name: [None if each is None else getattr(each, name) for each in of_program]
            for name in _MEMORY
        },
    }
    return [
        *(pl.Series(name, [text] * programs.height, pl.String) for name, text in same.items()),
        *(pl.Series(name, values, pl.Int64) for name, values in stated.items()),
    ]


def _findings(rows: pl.DataFrame, source: str) -> list[Issue]:
    """What is not known of transfers, counted on each device."""
    silent = pl.col("payload_bytes") == 0
    return issues_found(
        source,
        (
            COLLECTIVE_WITHOUT_GROUP,
            rows.filter(pl.col("group_index").is_null() & ~silent.fill_null(False)).height,
        ),
        (COLLECTIVE_WITHOUT_PAYLOAD, rows.filter(pl.col("payload_bytes").is_null()).height),
        (EXECUTIONS_UNKNOWN, rows.filter(pl.col("executions").is_null()).height),
    )


def program_collectives(
    facts: ProgramFacts, executed: pl.DataFrame, groups: pl.DataFrame, devices: pl.DataFrame
) -> pl.DataFrame:
    """What one execution of each program transfers on each device: program_collectives without the columns
    of the run, the world and the step.

    Args:
        facts: of the world's programs.
        executed: decisions.EXECUTED.
        groups: rows of replica_groups, with device_id.
        devices: rows of devices.
    """
    begins = pl.col("role").is_in(["sync", "start"]) & pl.col("transfer_op").is_not_null()
    transfers = (
        facts.ops.filter(pl.col("category") == "collective", begins)
        .join(executed, on=_OP, how="inner")
        .select(*_OP, *_TAKEN, "executions", is_async=pl.col("role") == "start")
    )
    cores = devices.filter(pl.col("logical_id").is_not_null()).select("device_id")
    size = pl.len().over(*_OP, "group_index").cast(pl.Int64)
    members = groups.with_columns(group_size=size).unique([*_OP, "device_id"], keep="first")
    placed = transfers.join(cores, how="cross").join(
        members.select(*_OP, "device_id", "group_index", "group_size"),
        on=[*_OP, "device_id"],
        how="left",
    )
    pairs = facts.pairs
    sends = pairs.filter(pl.col("source_device_id") != pl.col("target_device_id"))
    senders = sends.select(*_OP, device_id="source_device_id", sends=True).unique()
    paired = pairs.select(*_OP, paired=True).unique()
    known = placed.join(senders, on=[*_OP, "device_id"], how="left").join(
        paired, on=_OP, how="left"
    )
    silent = pl.col("paired").is_not_null() & pl.col("sends").is_null()
    payload = pl.when(silent).then(pl.lit(0, pl.Int64)).otherwise("payload_bytes")
    sized = known.with_columns(payload_bytes=payload).drop("paired", "sends")
    return sized.with_columns(summable(sized["payload_bytes"], sized["executions"]))
