"""Writes a run as Chakra execution traces, one a device, for simulators such as ASTRA-sim."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl

from xlahouse.capture.errors import ReportError
from xlahouse.sql.export.chakra_nodes import device_nodes
from xlahouse.sql.export.chakra_proto import write_trace
from xlahouse.sql.outputs import file_stems
from xlahouse.sql.warehouse import Warehouse

NODES_AT_ONCE = 65_536  # nodes that are encoded at once
_GROUPS = """
select program_id, op as name, group_index, list(device_id order by position) as members
from replica_groups
where run_id = $run and device_id is not null
group by program_id, op, group_index
order by program_id, name, group_index
"""


def write_chakra(
    warehouse: Warehouse,
    run: str,
    folder: Path,
    on_progress: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Write `<folder>/<run name>.<npu>.et` for each traced device, and the groups of devices as
    `comm_groups.json`; returns the files.

    NPUs are numbered from 0 by ascending device_id, devices that the run only names included. Sizes
    of transfers are payloads (METRICS, Bytes); 0 is written for none, and unknown ones are absent.

    Raises:
        WarehouseError: there is no such run.
        ReportError: it has no traced devices.
    """
    run_id = warehouse.resolve_run(run)
    given = {"run": run_id}
    devices = warehouse.query(
        "select device_id, traced from devices where run_id = $run order by device_id", given
    ).pl()
    traced = devices.with_row_index("npu").filter("traced")
    if traced.is_empty():
        raise ReportError(f"{run}: no device of it was traced, so there is nothing to simulate")
    npu_of = devices.select("device_id").with_row_index("npu").cast({"npu": pl.Int64})
    groups = _numbered(warehouse.query(_GROUPS, given).pl(), npu_of)
    (name,) = warehouse.query("select name from runs where run_id = $run", given).rows[0]
    stem = file_stems({run_id: name})[run_id]
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "comm_groups.json"]
    members = groups.select("group", "npus").unique("group").sort("group").rows()
    written[0].write_text(json.dumps({str(number): npus for number, npus in members}, indent=1))
    about = {"schema": "xlahouse", "run_id": run_id, "run": str(name)}
    for npu, device, _ in traced.rows():
        on_progress(f"device {device}")
        nodes = device_nodes(
            warehouse, run_id, device, npu_of, groups.drop("members", "npus", strict=False)
        )
        path = folder / f"{stem}.{npu}.et"
        draft = path.with_name(f".{path.name}.partial")
        try:
            with draft.open("wb") as file:
                own = about | {"device_id": str(device)}
                write_trace(file, nodes.iter_slices(NODES_AT_ONCE), own)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        written.append(path)
    return written


def _numbered(groups: pl.DataFrame, npu_of: pl.DataFrame) -> pl.DataFrame:
    """Each group with its members as NPUs, and a number from 1 that equal groups share."""
    npus = dict(npu_of.select("device_id", "npu").rows())
    named = [
        [npus[member] for member in members if member in npus] for members in groups["members"]
    ]
    numbers: dict[tuple[int, ...], int] = {}
    for members in named:
        numbers.setdefault(tuple(members), len(numbers) + 1)
    return groups.with_columns(
        pl.Series("npus", named, pl.List(pl.Int64)),
        pl.Series("group", [numbers[tuple(members)] for members in named], pl.Int64),
    )
