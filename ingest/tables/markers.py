"""Step markers of each process that ran launches, and findings about them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.codes_of_devices import (
    MARKER_INCOMPLETE,
    MARKER_REPEATED,
    MARKERS_CROSS,
)
from xlahouse.ingest.events.codes_of_names import REQUESTS_UNNAMED
from xlahouse.ingest.events.frames import SERVER_STEP, STEP_MARKERS, PlaneEvents
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.hlo.file_events import FileEvents
from xlahouse.ingest.tables.worlds import World


def markers_by_process(
    world: World, planes: Sequence[PlaneEvents]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(frames.MARKERS; device_id, host) of a world; a launch is in a marker of the same `host`.

    `host` is the host where one of its processes marks steps, as mostly. Where several do, it is the
    process: they are not in the same step at one time.

    Args:
        world: its files.
        planes: of these files, one after the other.
    """
    marking: dict[str, int] = {}
    for file in world.files:
        marking[file.host] = marking.get(file.host, 0) + _marks(file)
    of_plane = [
        f"{file.host} {file.path}" if marking[file.host] > 1 else file.host
        for file in world.files
        for _ in file.planes
    ]
    markers, hosts = [], []
    for plane, name in zip(planes, of_plane, strict=True):
        if not plane.markers.is_empty():
            markers.append(plane.markers.with_columns(host=pl.lit(name)))
        hosts += [(device.device_id, name) for device in plane.devices]
    schema = {"device_id": pl.Int64, "host": pl.String}
    return frames.stack(markers, frames.MARKERS), pl.DataFrame(hosts, schema, orient="row")


def _marks(file: FileEvents) -> bool:
    steps = {*STEP_MARKERS, SERVER_STEP}
    return any(not steps.isdisjoint(plane.markers["phase"].to_list()) for plane in file.planes)


def marker_issues(
    markers: pl.DataFrame, launches: pl.DataFrame, unnamed: int, source: str
) -> list[Issue]:
    """Findings about step markers.

    Args:
        markers: frames.MARKERS, from markers_by_process.
        launches: from finish_launches.
        unnamed: requests of servers' steps whose ids the trace lacks.
        source: the run.
    """
    steps = markers.filter(pl.col("phase").is_in(STEP_MARKERS))
    numbered = steps.drop_nulls(["request", "step"])
    again = pl.col("start_ps") >= pl.col("until")
    return issues_found(
        source,
        (MARKER_INCOMPLETE, steps.height - numbered.height),
        (MARKER_REPEATED, _beyond(numbered, ["host", "request", "step"], again)),
        (MARKERS_CROSS, int(launches["undecided"].sum())),
        (REQUESTS_UNNAMED, unnamed),
    )


def _beyond(markers: pl.DataFrame, key: list[str], wrong: pl.Expr) -> int:
    """How many markers are wrong; earlier markers of the same key last until `until`."""
    end = pl.col("start_ps") + pl.col("duration_ps")
    if markers.is_empty():
        return 0
    ordered = markers.sort("start_ps", "duration_ps", descending=[False, True])
    ordered = ordered.with_columns(until=end.cum_max().shift(1).over(key))
    return ordered.filter(wrong).height
