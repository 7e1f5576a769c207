"""Sets a run's mesh after the fact: views see it at the next query, nothing is ingested again."""

from __future__ import annotations

from msgspec.structs import replace

from xlahouse.capture.errors import WarehouseError
from xlahouse.capture.manifest import MeshAxis, parse_mesh
from xlahouse.ingest.settings import check_mesh, read_settings, write_settings
from xlahouse.sql.warehouse import Warehouse

MOST_AXES = 8  # the views spell the axes out one by one


def set_mesh(warehouse: Warehouse, run: str, text: str) -> tuple[str, list[MeshAxis]]:
    """Write the mesh `text` (`dp=2,tp=4`, major to minor) as a setting of a run.

    Devices take their places by world and logical id, ascending. Returns the run's id and the axes.

    Raises:
        WarehouseError: no such run, or too many axes.
        ManifestError: the text is no mesh, or its product is not the number of devices.
    """
    run_id = warehouse.resolve_run(run)
    axes = parse_mesh(text)
    if len(axes) > MOST_AXES:
        raise WarehouseError(f"mesh {text} has {len(axes)} axes; at most {MOST_AXES} are known")
    counted = warehouse.query(
        "select count(*) from devices where run_id = $run and core is distinct from 'sparsecore'",
        {"run": run_id},
    )
    check_mesh(axes, counted.rows[0][0])
    settings = read_settings(warehouse.root, run_id)
    write_settings(warehouse.root, run_id, replace(settings, mesh=axes))
    return run_id, axes
