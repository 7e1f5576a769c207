"""Reads the transfers of a compiled program."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from xlahouse.ingest.hlo.program import parse_program
from xlahouse.ingest.hlo.program_facts import gather


def transfers(folder: Path, program: str) -> pl.DataFrame:
    """A row a transfer of `prefill` or `decode` in a compiled run's folder: kind, payload_bytes, …

    The parts of one transfer share its instruction; instructions inside its fusions have none.
    """
    raw = (folder / f"{program}.hlo.pb").read_bytes()
    ops = gather([parse_program(raw, 1, program)], "x").ops.filter(category="collective")
    return ops.drop_nulls("transfer_op").unique("transfer_op")
