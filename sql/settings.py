"""Sets a run's mesh, peaks, device kind and limits: the next query sees them, without a new ingest."""

from __future__ import annotations

from msgspec.structs import replace

from xlahouse.capture.errors import ManifestError, QueryError, WarehouseError
from xlahouse.capture.manifest import AXIS_NAMES, MeshAxis, parse_mesh
from xlahouse.ingest.store.settings import (
    LatencyLimits,
    Peaks,
    check_mesh,
    parse_limits,
    parse_peaks,
    read_settings,
    write_settings,
)
from xlahouse.sql.nearest import suggest
from xlahouse.sql.warehouse import Warehouse

OWN = "own"  # the value that removes a setting


def set_mesh(
    warehouse: Warehouse, run: str, text: str, force: bool = False
) -> tuple[str, list[MeshAxis] | None]:
    """Write the mesh `text` (`dp=2,tp=4`, major to minor; `own` removes it) as a run's setting.

    Devices take their places by world and logical id, ascending. Returns the run's id and the axes.

    Args:
        warehouse: that has the run.
        run: id, prefix or name.
        text: the mesh.
        force: take names of axes that no plan knows.

    Raises:
        WarehouseError: no such run, or the warehouse cannot be written.
        ManifestError: the text is not a mesh, or not one of the run's devices, or has an unknown axis.
    """
    run_id = warehouse.resolve_run(run)
    axes = None if text == OWN else parse_mesh(text)
    if axes is not None:
        counted = warehouse.query(
            "select count(*) from devices where run_id = $run and core is distinct from 'sparsecore'",
            {"run": run_id},
        )
        check_mesh(axes, counted.rows[0][0])
        if not force:
            _check_names(axes)
    _keep(warehouse, run_id, "the mesh", mesh=axes)
    return run_id, axes


def _check_names(axes: list[MeshAxis]) -> None:
    for axis in axes:
        if axis.axis not in AXIS_NAMES:
            hint = suggest(axis.axis, AXIS_NAMES) or f"; plans have {', '.join(AXIS_NAMES)}"
            raise ManifestError(f"no plan has an axis {axis.axis}{hint}; --force takes it as it is")


def mesh_effect(warehouse: Warehouse, run_id: str) -> tuple[str, dict[str, int]]:
    """A run's mesh as text (empty where none is known), and the number of collectives along each axis."""
    mesh = warehouse.query(
        "select distinct axis_index, axis, size from run_mesh_v1 where run_id = $run order by axis_index",
        {"run": run_id},
    )
    counted = warehouse.query(
        """
        select axis, cast(sum(collectives) as bigint) as collectives
        from traffic_volume_v1 where run_id = $run
        group by axis order by collectives desc, axis
        """,
        {"run": run_id},
    )
    return " x ".join(f"{axis}={size}" for _, axis, size in mesh.rows), dict(counted.rows)


def set_peaks(warehouse: Warehouse, run: str, text: str) -> tuple[str, Peaks | None]:
    """Write peaks of a run's chips (`bf16_flops=9.18e14,hbm_bytes_per_s=1.6e12`; `own` removes them).

    Returns the run's id and its peaks.

    Raises:
        WarehouseError: no such run, or the warehouse cannot be written.
        ManifestError: the text names no peaks.
    """
    run_id = warehouse.resolve_run(run)
    peaks = None if text == OWN else parse_peaks(text)
    _keep(warehouse, run_id, "the peaks", peaks=peaks)
    return run_id, peaks


def set_limits(warehouse: Warehouse, run: str, text: str) -> tuple[str, LatencyLimits | None]:
    """Write limits on latencies in seconds (`ttft=0.5,tpot=0.05`; `own` removes them), by which
    serving_summary judges a server's requests.

    Returns the run's id and its limits.

    Raises:
        WarehouseError: no such run, or the warehouse cannot be written.
        ManifestError: the text names no limits.
    """
    run_id = warehouse.resolve_run(run)
    limits = None if text == OWN else parse_limits(text)
    _keep(warehouse, run_id, "the limits", limits=limits)
    return run_id, limits


def set_device_kind(warehouse: Warehouse, run: str, text: str) -> tuple[str, str | None]:
    """Write the kind of a run's devices (`TPU v6e`; `own` removes it), by which peaks are looked up.

    Returns the run's id and the kind.

    Raises:
        WarehouseError: no such run, or the warehouse cannot be written.
        QueryError: no peaks are known for the kind.
    """
    run_id = warehouse.resolve_run(run)
    if text == OWN:
        _keep(warehouse, run_id, "the device kind", device_kind=None)
        return run_id, None
    known = [row[0] for row in warehouse.query("select kind_name from _chip_peaks_v1").rows]
    kind = text.lower().replace(" ", "")
    if kind not in known:
        hint = suggest(kind, known) or f"; known are {', '.join(sorted(known))}"
        raise QueryError(f"no peaks are known for {text!r}{hint}; or give them with set peaks", "")
    _keep(warehouse, run_id, "the device kind", device_kind=text)
    return run_id, text


def _keep(warehouse: Warehouse, run_id: str, what: str, **changed: object) -> None:
    try:
        settings = read_settings(warehouse.root, run_id)
        write_settings(warehouse.root, run_id, replace(settings, **changed))
    except OSError as error:
        raise WarehouseError(
            f"{warehouse.root}: {what} cannot be kept: {error.strerror or error}; "
            "a setting is a file in the warehouse, which needs write permission"
        ) from error
