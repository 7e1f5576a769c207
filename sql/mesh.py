"""Sets a run's mesh after the fact: views see it at the next query, nothing is ingested again."""

from __future__ import annotations

from msgspec.structs import replace

from xlahouse.capture.errors import WarehouseError
from xlahouse.capture.manifest import MeshAxis, parse_mesh
from xlahouse.ingest.settings import check_mesh, read_settings, write_settings
from xlahouse.sql.warehouse import Warehouse


def set_mesh(warehouse: Warehouse, run: str, text: str) -> tuple[str, list[MeshAxis]]:
    """Write the mesh `text` (`dp=2,tp=4`, major to minor) as a setting of a run.

    Devices take their places by world and logical id, ascending. Returns the run's id and the axes.

    Raises:
        WarehouseError: no such run, or the warehouse cannot be written.
        ManifestError: the text is no mesh, or not one of the run's devices.
    """
    run_id = warehouse.resolve_run(run)
    axes = parse_mesh(text)
    counted = warehouse.query(
        "select count(*) from devices where run_id = $run and core is distinct from 'sparsecore'",
        {"run": run_id},
    )
    check_mesh(axes, counted.rows[0][0])
    try:
        settings = read_settings(warehouse.root, run_id)
        write_settings(warehouse.root, run_id, replace(settings, mesh=axes))
    except OSError as error:
        raise WarehouseError(
            f"{warehouse.root}: the mesh cannot be kept: {error.strerror or error}; "
            "a setting is a file in the warehouse, so you have to be able to write there"
        ) from error
    return run_id, axes
