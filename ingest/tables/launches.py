"""Numbers launches, finds their instances, and places them in steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.frames import STEP_MARKERS, by_start
from xlahouse.ingest.events.spans import starts_of_runs
from xlahouse.ingest.tables.instances import by_first_start, number_instances

KEYS_OF_A_FILE = 1 << 40  # keys are event numbers, always below this
STEP_KEY = ("phase", "request", "step")
_PROGRAM = ("program_id", "module")
_COMPONENT = "component"


def finish_launches(
    launches: pl.DataFrame,
    markers: pl.DataFrame,
    hosts: pl.DataFrame,
    component_of: Mapping[int, int] | None = None,
) -> pl.DataFrame:
    """Number launches, find their instances, and place them in steps.

    Args:
        launches: frames.LAUNCHES of all devices, without their links.
        markers: frames.MARKERS of all hosts.
        hosts: device_id, host.
        component_of: of each device the set of clocks that can be compared with its own; None: one.

    Returns:
        The launches table without run_id, and `launch_key`.
    """
    ordered = by_start(launches).with_columns(launch=pl.int_range(pl.len()).over("device_id"))
    known = pl.struct("instance_key", "program_id").rank("dense").cast(pl.Int64) - 1
    if _is_known(ordered["instance_key"]):
        instance = ordered.select(known.alias("instance"))["instance"]
    else:
        ordered, key = _with_component(ordered, component_of)
        instance = number_instances(ordered, key)
        ordered = ordered.select(pl.exclude(_COMPONENT))
    numbered = by_first_start(ordered.with_columns(launch_instance=instance), "launch_instance")
    placed = _with_step(numbered, markers, hosts)
    if component_of is None or len(set(component_of.values())) <= 1:
        return placed
    return _with_step(_joined_by_name(placed, component_of), markers, hosts)


def _with_component(
    launches: pl.DataFrame, component_of: Mapping[int, int] | None
) -> tuple[pl.DataFrame, list[str]]:
    """Launches, and the key of what can be one instance: none across clocks that cannot be compared."""
    key = list(_PROGRAM)
    if component_of is None or len(set(component_of.values())) <= 1:
        return launches, key
    component = pl.col("device_id").replace_strict(component_of, return_dtype=pl.Int64)
    return launches.with_columns(component.alias(_COMPONENT)), [*key, _COMPONENT]


def _joined_by_name(launches: pl.DataFrame, component_of: Mapping[int, int]) -> pl.DataFrame:
    """Launches before their steps, with one instance for the launches of one program that markers on clocks
    which cannot be compared put into the same step, where each clock has as many of them."""
    instances, _ = _with_component(launches, component_of)
    step = [*_PROGRAM, *STEP_KEY]
    named = (
        instances.filter(pl.col("phase").is_in(STEP_MARKERS))
        .drop_nulls(["request", "step"])
        .group_by(_COMPONENT, "launch_instance", *step)
        .agg(start_ps=pl.col("start_ps").min())
        .filter(pl.len().over(_COMPONENT, "launch_instance") == 1)
        .sort("start_ps", "launch_instance")
        .with_columns(
            turn=pl.int_range(pl.len()).over(_COMPONENT, *step),
            turns=pl.len().over(_COMPONENT, *step),
        )
    )
    key = [*step, "turn", "turns"]
    whole = named.with_columns(whole=pl.col("launch_instance").min().over(key))
    renamed = whole.select("launch_instance", "whole").unique()
    joined = launches.drop(STEP_KEY).join(
        renamed, on="launch_instance", how="left", maintain_order="left"
    )
    number = pl.coalesce("whole", "launch_instance")
    return by_first_start(
        joined.with_columns(launch_instance=number).drop("whole"), "launch_instance"
    )


def _is_known(instance_keys: pl.Series) -> bool:
    """Whether readers know the instances; they never do for several files."""
    one_file = (instance_keys // KEYS_OF_A_FILE).n_unique() <= 1
    return one_file and instance_keys.null_count() == 0


def of_devices(launches: pl.DataFrame, device_ids: Integers) -> pl.DataFrame:
    """The launches of some devices, by device and start.

    Found by binary search, since other devices can have many more.

    Args:
        launches: of all devices, by device and start.
        device_ids: in any order, with repeats.
    """
    ordered = launches["device_id"].to_numpy()
    wanted = np.unique(device_ids[starts_of_runs(device_ids)])
    bounds = zip(
        *(np.searchsorted(ordered, wanted, side) for side in ("left", "right")), strict=True
    )
    parts = [launches.slice(first, last - first) for first, last in bounds]
    return pl.concat(parts) if parts else launches.clear()


def _with_step(launches: pl.DataFrame, markers: pl.DataFrame, hosts: pl.DataFrame) -> pl.DataFrame:
    steps = markers.filter(pl.col("phase").is_in(STEP_MARKERS))
    if steps.is_empty():
        return launches.with_columns(
            phase=pl.lit("step"), request=pl.lit(None, pl.Int64), step="launch_instance"
        )
    opened = _innermost(steps.with_columns(pl.col("host").fill_null("")))
    hosted = launches.join(hosts, on="device_id", how="left").with_columns(
        pl.col("host").fill_null(""), when=pl.coalesce("enqueue_ps", "start_ps")
    )
    joined = hosted.sort("when").join_asof(opened, on="when", by="host", check_sortedness=False)
    marked = pl.col("host").is_in(opened["host"].unique().implode())
    placed = _as_elsewhere(joined.with_columns(marked=marked))
    return placed.drop("when", "host", "marked").sort("device_id", "launch")


def _as_elsewhere(launches: pl.DataFrame) -> pl.DataFrame:
    """Give launches on hosts without step markers the step of their instance on other hosts."""
    if launches["marked"].all():
        return launches
    step = pl.struct(STEP_KEY)
    known = launches.filter("marked").group_by("launch_instance").agg(step=step.unique())
    alike = known.filter(pl.col("step").list.len() == 1).explode("step")
    shared = launches.select("launch_instance").join(
        alike.select("launch_instance", shared="step"),
        on="launch_instance",
        how="left",
        maintain_order="left",
    )["shared"]
    return launches.with_columns(
        pl.when("marked").then(name).otherwise(shared.struct.field(name)).alias(name)
        for name in STEP_KEY
    )


class _Marker(NamedTuple):
    """A step marker."""

    host: str
    start_ps: int
    end_ps: int
    phase: str | None
    request: int | None
    step: int | None


def _innermost(steps: pl.DataFrame) -> pl.DataFrame:
    """host, when, phase, request, step: the innermost open marker from `when` on, else NULL."""
    ordered = steps.sort("host", "start_ps", "duration_ps", descending=[False, False, True])
    rows = ordered.with_columns(end_ps=pl.col("start_ps") + pl.col("duration_ps"))
    markers = map(_Marker._make, rows.select(_Marker._fields).iter_rows())
    found = [
        (host, when, *(marker[3:] if marker else [None] * len(STEP_KEY)))
        for host, of_host in groupby(markers, key=lambda marker: marker.host)
        for when, marker in _innermost_of(list(of_host))
    ]
    schema = {"host": pl.String, "when": pl.Int64} | {name: steps.schema[name] for name in STEP_KEY}
    return pl.DataFrame(found, schema=schema, orient="row").sort("when", maintain_order=True)


def _innermost_of(markers: list[_Marker]) -> Iterator[tuple[int, _Marker | None]]:
    """(time, the innermost marker that is open from then on), wherever a marker begins or ends.

    Args:
        markers: of one host, by start, and of those that start together the longer first.
    """
    opened: list[_Marker] = []
    waiting = deque(markers)
    for when in sorted({time for marker in markers for time in (marker.start_ps, marker.end_ps)}):
        while waiting and waiting[0].start_ps <= when:
            opened.append(waiting.popleft())
        opened = [marker for marker in opened if marker.end_ps > when]
        yield when, opened[-1] if opened else None


def phase_rows(markers: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """The phases table without run_id: markers, or launch instances where there is no step marker."""
    marked = markers.with_columns(source=pl.lit("marker"))
    if markers["phase"].is_in(STEP_MARKERS).any():
        return marked
    end = (pl.col("start_ps") + pl.col("duration_ps")).max()
    modules = launches.group_by("launch_instance").agg(
        start_ps=pl.col("start_ps").min(), duration_ps=end - pl.col("start_ps").min()
    )
    return pl.concat(
        [
            marked,
            modules.select(
                pl.lit("step").alias("phase"),
                pl.col("launch_instance").alias("step"),
                "start_ps",
                "duration_ps",
                pl.lit("module").alias("source"),
            ),
        ],
        how="diagonal",
    )
