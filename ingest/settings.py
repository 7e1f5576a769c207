"""What users set for a run: one small JSON file a run in the warehouse, never in its tables."""

from __future__ import annotations

import math

import fsspec
import msgspec

from xlahouse.capture.errors import ManifestError, WarehouseError
from xlahouse.capture.manifest import MeshAxis

MOST_AXES = 8  # as many as the views join


class RunSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run's settings; None means that the run's own facts count."""

    mesh: list[MeshAxis] | None = None
    device_kind: str | None = None


def settings_path(root: str, run_id: str) -> str:
    """Where a run's settings are kept in the warehouse at `root` (a path or an fsspec URL)."""
    return f"{root.rstrip('/')}/settings/{run_id}.json"


def read_settings(root: str, run_id: str) -> RunSettings:
    """A run's settings; all None where nothing was set.

    Raises:
        WarehouseError: the file is not valid.
    """
    path = settings_path(root, run_id)
    try:
        with fsspec.open(path, "rb") as file:
            raw = file.read()
    except FileNotFoundError:
        return RunSettings()
    try:
        return msgspec.json.decode(raw, type=RunSettings)
    except msgspec.DecodeError as error:
        raise WarehouseError(f"{path}: {error}; mend or remove the file") from error


def write_settings(root: str, run_id: str, settings: RunSettings) -> None:
    """Replace a run's settings."""
    raw = msgspec.json.format(msgspec.json.encode(settings), indent=2) + b"\n"
    with fsspec.open(settings_path(root, run_id), "wb", auto_mkdir=True) as file:
        file.write(raw)


def check_mesh(axes: list[MeshAxis], devices: int) -> None:
    """A mesh has as many places as the run has devices, and at most MOST_AXES axes of different names.

    Raises:
        ManifestError: it has not.
    """
    text = " x ".join(f"{axis.axis}={axis.size}" for axis in axes)
    if len({axis.axis for axis in axes}) < len(axes):
        raise ManifestError(f"mesh {text}: an axis stands twice")
    if not 0 < len(axes) <= MOST_AXES:
        raise ManifestError(f"mesh {text}: {len(axes)} axes; give 1 to {MOST_AXES}")
    places = math.prod(axis.size for axis in axes)
    if places != devices:
        raise ManifestError(
            f"mesh {text} has {places} places, but the run names {devices} devices; "
            "give axes whose product is the number of devices"
        )
