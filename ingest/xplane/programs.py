"""Programs of a plane: HLO protos in `/host:metadata`, and the HLO text in the names of ops."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from xlahouse.ingest.hlo.names import InstructionTexts
from xlahouse.ingest.hlo.program import FINGERPRINT, Program, parse_program
from xlahouse.ingest.xplane.stats import of_owners
from xlahouse.ingest.xplane.xspace import Plane

_INSTRUCTION = re.compile(r"%\S+ = ")


def programs_of_plane(plane: Plane) -> Iterator[Program | ValueError]:
    """The programs in `/host:metadata`; a damaged one is returned as its error.

    The id is the `program_id` stat (newer files), else the number in the name, else the key.
    """
    blobs = plane.metadata_stats.blobs("Hlo Proto").rename({"owner": "metadata_id"})
    ids = plane.metadata_stats.numbers("program_id", pl.UInt64).rename({"owner": "metadata_id"})
    rows = blobs.join(plane.metadata, on="metadata_id", how="left").join(
        ids, on="metadata_id", how="left"
    )
    for row in rows.iter_rows(named=True):
        name = row["name"] or ""
        match = FINGERPRINT.search(name)
        program_id = row["program_id"]
        if program_id is None:
            program_id = int(match[1]) if match else row["metadata_id"]
        if row["Hlo Proto"] is None:
            yield ValueError(f"the HLO of {name} is damaged: it is not bytes")
            continue
        try:
            yield parse_program(row["Hlo Proto"], program_id, name)
        except ValueError as error:
            yield error


def instruction_texts(plane: Plane) -> InstructionTexts:
    """The names in a plane's event metadata that are instructions, with their framework ops."""
    names = plane.metadata["name"].to_list()
    found = [at for at, name in enumerate(names) if name and _INSTRUCTION.match(name)]
    if not found:
        return []
    named = plane.metadata[found]
    owners, stats = named["metadata_id"].to_numpy(), plane.metadata_stats
    ids = of_owners(stats.numbers("program_id", pl.UInt64), owners)
    paths, sources = (of_owners(stats.texts(name), owners) for name in ("tf_op", "source"))
    return list(zip(ids, named["name"], paths, sources, strict=True))
