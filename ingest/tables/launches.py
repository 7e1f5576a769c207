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
_COMPONENT, _MET = "component", "met"


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
        numbered = by_first_start(
            ordered.with_columns(known.alias("launch_instance")), "launch_instance"
        )
        return _with_step(numbered, markers, hosts)
    circled, key = _in_circles(ordered, component_of, circles)
    met, instance = number_instances(circled, key)
    numbered = by_first_start(
        circled.with_columns(met.alias(_MET), instance.alias("launch_instance")), "launch_instance"
    )
    placed = _with_step(numbered, markers, hosts)
    apart = circled.select(_COMPONENT, CIRCLE).unique().height > 1
    if apart and placed["marker"].is_not_null().any():
        named = _by_name(placed, hosts.filter(pl.col("host").is_in(markers["host"].implode())))
        placed = _with_step(named.drop(*_PLACE, "undecided"), markers, hosts)
    return placed.drop(_COMPONENT, CIRCLE, _MET)


def _in_circles(
    launches: pl.DataFrame, component_of: Mapping[int, int] | None, circles: pl.DataFrame | None
) -> tuple[pl.DataFrame, list[str]]:
    """Launches with the circle of their device, and the key of what can be one instance: none across
    clocks that cannot be compared. A device that meets no other one is its own circle."""
    device, component = pl.col("device_id"), pl.lit(0, pl.Int64)
    if component_of is not None and len(set(component_of.values())) > 1:
        component = device.replace_strict(component_of, return_dtype=pl.Int64)
    placed = launches.with_columns(component.alias(_COMPONENT))
    if circles is None:
        return placed.with_columns(device.alias(CIRCLE)), [*_PROGRAM, _COMPONENT]
    joined = placed.join(circles, on=["program_id", "device_id"], how="left", maintain_order="left")
    return joined.with_columns(pl.col(CIRCLE).fill_null(device)), [*_PROGRAM, _COMPONENT]


def _by_name(launches: pl.DataFrame, marked: pl.DataFrame) -> pl.DataFrame:
    """Launches in one instance where markers name them alike, however late one circle is (METRICS, Clocks).

    The name is the program, step, and place among the circle's launches of both; a step in which circles
    have unequally many names none. Within clocks that can be compared a launch without a link to its
    enqueue has none: placed by its start, it may be in the marker after its own. Circles without a name
    stay with the instance that time puts them into, where its names are one.

    Args:
        launches: placed, with component, circle and `met`, the instance within the circle.
        marked: device_id of the hosts that have markers.
    """
    step = [*_PROGRAM, *STEP_KEY]
    apart = launches[_COMPONENT].n_unique() > 1
    names = launches.join(marked.select("device_id"), on="device_id", how="semi").filter(
        pl.col("phase").is_in(STEP_MARKERS)
        & pl.col("request").is_not_null()
        & pl.col("step").is_not_null()
        & (pl.col("enqueue_ps").is_not_null() | apart)
    )
    of_circle = [_COMPONENT, CIRCLE, *step]
    named = (
        names.group_by(_MET, *of_circle)
        .agg(pl.col("start_ps").min())
        .filter(pl.len().over(_MET) == 1)
        .sort("start_ps", _MET)
        .with_columns(turn=pl.int_range(pl.len()).over(of_circle), turns=pl.len().over(of_circle))
        .filter(pl.col("turns").n_unique().over(step) == 1)
        .select(_MET, whole=pl.col(_MET).min().over(*step, "turn"))
    )
    joined = launches.join(named, on=_MET, how="left", maintain_order="left")
    only = pl.when(pl.col("whole").drop_nulls().n_unique() == 1).then(pl.col("whole").max())
    whole = pl.coalesce("whole", only.over("launch_instance"), -1 - pl.col("launch_instance"))
    return by_first_start(
        joined.with_columns(launch_instance=whole).drop("whole"), "launch_instance"
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
