"""Numbers launches, finds their instances, and places them in steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.frames import SERVER_STEP, STEP_MARKERS, by_start
from xlahouse.ingest.events.spans import starts_of_runs
from xlahouse.ingest.nesting.open_markers import STEP_KEY, open_markers
from xlahouse.ingest.tables.instances import CIRCLE, by_first_start, number_instances

KEYS_OF_A_FILE = 1 << 40  # keys are event numbers, always below this
_PLACE = (*STEP_KEY, "marker")
_IS_STEP = pl.col("phase").is_in([*STEP_MARKERS, SERVER_STEP])
# Where nothing else marks steps: users' own, whose thread is known.
_IS_ANNOTATED = (
    (pl.col("phase") == "step") & pl.col("step").is_not_null() & pl.col("thread").is_not_null()
)
_PROGRAM = ("program_id", "module")
_COMPONENT = "component"


def finish_launches(
    launches: pl.DataFrame,
    markers: pl.DataFrame,
    hosts: pl.DataFrame,
    component_of: Mapping[int, int] | None = None,
    circles: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Number launches, find their instances, and place them in steps.

    Args:
        launches: frames.LAUNCHES of all devices, without their links.
        markers: frames.MARKERS of all hosts.
        hosts: device_id, host.
        component_of: of each device the set of clocks that can be compared with its own; None: one.
        circles: from participants.circles_of; None: not known.

    Returns:
        The launches table without run_id, and `launch_key`, `marker` (place of the marker that decides) and
        `undecided` (several are open, and none does).
    """
    ordered = by_start(launches)
    first = starts_of_runs(ordered["device_id"].to_numpy())
    begins = np.repeat(first, np.diff(first, append=ordered.height))
    ordered = ordered.hstack([pl.Series("launch", np.arange(ordered.height) - begins)])
    known = pl.struct("instance_key", "program_id").rank("dense").cast(pl.Int64) - 1
    if _is_known(ordered["instance_key"]):
        instance = ordered.select(known.alias("instance"))["instance"]
    else:
        ordered, key = _with_component(ordered, component_of)
        instance = number_instances(_with_circle(ordered, circles), key)
        ordered = ordered[[name for name in ordered.columns if name != _COMPONENT]]
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


def _with_circle(launches: pl.DataFrame, circles: pl.DataFrame | None) -> pl.DataFrame:
    """Launches with the circle of their device; a device that meets no other one is its own."""
    if circles is None or circles.is_empty():
        return launches
    placed = launches.join(
        circles, on=["program_id", "device_id"], how="left", maintain_order="left"
    )
    return placed.with_columns(pl.col(CIRCLE).fill_null(pl.col("device_id")))


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
    joined = launches.drop(*_PLACE, "undecided").join(
        renamed, on="launch_instance", how="left", maintain_order="left"
    )
    number = pl.coalesce("whole", "launch_instance")
    return by_first_start(
        joined.with_columns(launch_instance=number).drop("whole"), "launch_instance"
    )


def _is_known(instance_keys: pl.Series) -> bool:
    """Whether readers know the instances; they never do for several files."""
    if instance_keys.null_count():
        return False
    return (instance_keys // KEYS_OF_A_FILE).n_unique() <= 1


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
    steps = markers.with_columns(
        host=pl.col("host").fill_null(""), marker=pl.int_range(pl.len(), dtype=pl.Int64)
    )
    for chosen in (_IS_STEP, _IS_ANNOTATED) if markers.height else ():
        placing = steps.filter(chosen)
        if placing.is_empty():
            continue
        placed = _placed(launches, placing, hosts)
        if chosen is _IS_STEP or placed["step"].is_not_null().any():
            return placed
    return launches.with_columns(
        phase=pl.lit("step"),
        request=pl.lit(None, pl.Int64),
        step="launch_instance",
        marker=pl.lit(None, pl.Int64),
        undecided=pl.lit(False),
    )


def _placed(launches: pl.DataFrame, steps: pl.DataFrame, hosts: pl.DataFrame) -> pl.DataFrame:
    """Launches in steps. steps: frames.MARKERS of one kind, with `marker`."""
    hosted = launches.join(hosts, on="device_id", how="left").with_columns(
        pl.col("host").fill_null(""), when=pl.coalesce("enqueue_ps", "start_ps")
    )
    joined = open_markers(hosted.sort("when"), steps)
    marked = pl.col("host").is_in(steps["host"].unique().implode())
    placed = _as_elsewhere(joined.with_columns(marked=marked))
    return placed.drop("when", "host", "marked").sort("device_id", "launch")


def _as_elsewhere(launches: pl.DataFrame) -> pl.DataFrame:
    """Give launches on hosts without step markers the step of their instance on other hosts."""
    if launches["marked"].all():
        return launches
    known = (
        launches.filter("marked")
        .group_by("launch_instance")
        .agg(pl.struct(STEP_KEY).n_unique().alias("steps"), pl.col(_PLACE).min())
    )
    alike = known.filter(pl.col("steps") == 1).select("launch_instance", *_PLACE)
    joined = launches.join(
        alike, on="launch_instance", how="left", maintain_order="left", suffix="_elsewhere"
    )
    return joined.with_columns(
        pl.when("marked").then(name).otherwise(f"{name}_elsewhere").alias(name) for name in _PLACE
    ).select(launches.columns)


def phase_rows(markers: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """The phases table without run_id: markers, and launch instances where no marker is a step.

    Steps of servers are left out: ingest/serving has them.
    """
    told = markers.select("host", "phase", "request", "step", "start_ps", "duration_ps")
    marked = told.filter(pl.col("phase") != SERVER_STEP).with_columns(source=pl.lit("marker"))
    if markers.filter(_IS_STEP).height or launches["marker"].is_not_null().any():
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
