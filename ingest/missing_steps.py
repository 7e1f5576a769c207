"""Counts the steps that arrived in a trace against those that the capture ran."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import polars as pl

from xlahouse.capture.manifest import Manifest
from xlahouse.ingest.events.codes_of_devices import STEPS_MISSING
from xlahouse.ingest.events.issues import Issue

_NAMED = 3  # requests whose missing steps a finding lists


def missing_steps(
    manifest: Manifest | None, launches: Iterable[pl.DataFrame], source: str
) -> list[Issue]:
    """The finding that steps of the manifest's requests, or of its server, lack a launch on a device.

    Args:
        manifest: of the capture; None: nothing says what ran.
        launches: of each world: device_id, request, step; devices without any launch are another
            finding's.
        source: the run.
    """
    if manifest is None:
        return []
    ran = pl.DataFrame(_steps(manifest), {"request": pl.Int64, "step": pl.Int64}, orient="row")
    worlds = [
        each.select("device_id", pl.col("request", "step").cast(pl.Int64)).with_columns(
            world=number
        )
        for number, each in enumerate(launches)
    ]
    seen = pl.concat(worlds).unique() if worlds else pl.DataFrame()
    if seen.is_empty():
        return []
    devices = seen.select("world", "device_id").unique()
    found = seen.group_by("request", "step").len("devices")
    arrived = ran.join(found, on=["request", "step"], how="left", nulls_equal=True)
    few = pl.col("devices").fill_null(0) < devices.height
    missing = arrived.filter(few).sort("request", "step")
    if missing.is_empty():
        return []
    detail = (
        f"{ran.height - missing.height} of {ran.height} steps arrived on all {devices.height} devices; "
        f"missing are {_listed(missing.select('request', 'step').rows())}"
    )
    return [STEPS_MISSING.found(source, missing.height, detail)]


def _steps(manifest: Manifest) -> list[tuple[int | None, int]]:
    """(request, step) of all that ran; a server's steps are of no single request."""
    if manifest.server is not None:
        return [(None, step) for step in range(len(manifest.server.steps))]
    return [
        (timing.request, step)
        for timing in manifest.requests
        for step in range(len(timing.step_s) + 1)
    ]


def _listed(missing: list[tuple[int | None, int]]) -> str:
    """`request 0: steps 3 to 5, 9; request 1: step 0`; of a server `steps 3 to 5, 9`."""
    requests = [
        f"{'' if request is None else f'request {request}: '}{_spans([step for _, step in rows])}"
        for request, rows in groupby(missing, key=lambda row: row[0])
    ]
    more = [f"{len(requests) - _NAMED} more requests"] if len(requests) > _NAMED else []
    return "; ".join([*requests[:_NAMED], *more])


def _spans(steps: list[int]) -> str:
    """Ascending numbers as spans: `steps 3 to 5, 9`."""
    spans: list[list[int]] = []
    for step in steps:
        if spans and spans[-1][1] == step - 1:
            spans[-1][1] = step
        else:
            spans.append([step, step])
    texts = [str(first) if first == last else f"{first} to {last}" for first, last in spans]
    return f"step{'s' if len(steps) > 1 else ''} {', '.join(texts)}"
