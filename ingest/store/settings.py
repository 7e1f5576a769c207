"""Users' settings of a run: one small JSON file a run in the warehouse, never in its tables."""

from __future__ import annotations

import math
from typing import Annotated, TypeVar

import msgspec

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.capture.errors import ManifestError, WarehouseError
from xlahouse.capture.manifest import MeshAxis
from xlahouse.ingest.events.files import open_fs, read_small, write_whole

T = TypeVar("T", bound=msgspec.Struct)
MOST_AXES = 8  # as many as the views join


Peak = Annotated[float, msgspec.Meta(gt=0, le=1e24)]  # beyond that a number is a mistake


class Peaks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Peaks that a user overrides: of a chip, of one ICI link, one way, and of a link that jobs share."""

    bf16_flops: Peak | None = None  # FLOP/s of a chip
    hbm_bytes_per_s: Peak | None = None  # of a chip
    ici_bytes_per_s: Peak | None = None  # of one ICI link, one way
    shared_link_bytes_per_s: Peak | None = None  # of a link that jobs share

    def given(self) -> list[tuple[str, float]]:
        """(name, value) of each peak that is set."""
        return _given(self)


Seconds = Annotated[float, msgspec.Meta(gt=0, le=1e6)]


class LatencyLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits on the latencies of a server's requests, in seconds: a request within them is good."""

    ttft: Seconds | None = None  # time to first token
    tpot: Seconds | None = None  # time per output token

    def given(self) -> list[tuple[str, float]]:
        """(name, value) of each limit that is set."""
        return _given(self)


class RunSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run's settings; None means that the run's own facts count."""

    mesh: list[MeshAxis] | None = None  # major to minor
    device_kind: str | None = None  # such as TPU v6e
    peaks: Peaks | None = None  # of its hardware
    limits: LatencyLimits | None = None  # of its requests


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
        raw = read_small(path)
    except FileNotFoundError:
        return RunSettings()
    try:
        return msgspec.json.decode(raw, type=RunSettings)
    except JSON_FAULTS as error:
        raise WarehouseError(f"{path}: {error}; correct or remove the file") from error


def write_settings(root: str, run_id: str, settings: RunSettings) -> None:
    """Replace a run's settings.

    Raises:
        OSError: they cannot be written; what was there stays.
    """
    raw = msgspec.json.format(msgspec.json.encode(settings), indent=2) + b"\n"
    system, path = open_fs(settings_path(root, run_id))
    write_whole(system, path, raw)


def check_mesh(axes: list[MeshAxis], devices: int) -> None:
    """A mesh has as many places as the run has devices, and at most MOST_AXES axes of different names.

    Raises:
        ManifestError: it does not.
    """
    text = " x ".join(f"{axis.axis}={axis.size}" for axis in axes)
    if len({axis.axis for axis in axes}) < len(axes):
        raise ManifestError(f"mesh {text}: an axis occurs twice")
    if not 0 < len(axes) <= MOST_AXES:
        raise ManifestError(f"mesh {text}: {len(axes)} axes; give 1 to {MOST_AXES}")
    places = math.prod(axis.size for axis in axes)
    if places != devices:
        raise ManifestError(
            f"mesh {text} has {places} places, but the run names {devices} devices; "
            "give axes whose product is the number of devices"
        )


def parse_peaks(text: str) -> Peaks:
    """`bf16_flops=9.18e14,hbm_bytes_per_s=1.6e12` -> peaks.

    Raises:
        ManifestError: the text is not of that form, or a number cannot be a peak.
    """
    return _parsed("peaks", text, Peaks, "bf16_flops=9.18e14,hbm_bytes_per_s=1.6e12")


def parse_limits(text: str) -> LatencyLimits:
    """`ttft=0.5,tpot=0.05` -> limits.

    Raises:
        ManifestError: the text is not of that form, or a number cannot be a limit.
    """
    return _parsed("limits", text, LatencyLimits, "ttft=0.5,tpot=0.05")


def _given(settings: Peaks | LatencyLimits) -> list[tuple[str, float]]:
    pairs = ((name, getattr(settings, name)) for name in settings.__struct_fields__)
    return [(name, value) for name, value in pairs if value is not None]


def _parsed(what: str, text: str, kind: type[T], example: str) -> T:
    names = kind.__struct_fields__
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (word.strip() for word in part.partition("="))
        if name not in names or name in found:
            raise ManifestError(
                f"{what} {text!r}: write NAME=NUMBER, each once, of {', '.join(names)}, "
                f"such as {example}"
            )
        try:
            found[name] = float(number)
        except ValueError:
            wanted = example.rpartition("=")[2]
            raise ManifestError(
                f"{what} {text!r}: {number!r} is not a number; write it as {wanted}"
            ) from None
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{what} {text!r}: {error}") from None
