"""Numbers the steps of servers, names the requests of each, and finds which steps are prefills."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from xlahouse.ingest.events.frames import SERVER_STEP, ColumnTypes, empty
from xlahouse.ingest.serving.phases import PROMPT_BOUNDS, with_phase
from xlahouse.ingest.serving.requests import own_markers, requests_of_steps
from xlahouse.ingest.serving.totals import totals

SOURCE = "server"  # in phases
_STEP: ColumnTypes = {"host": pl.String, "request": pl.Int64, "step": pl.Int64}
_NO_PHASES = empty({**_STEP, "phase": pl.String, "start_ps": pl.Int64, "duration_ps": pl.Int64})
_NO_REQUESTS = empty({**_STEP, "request_id": pl.String})
_STEPS_OF_REQUEST = ("first_step", "last_step", "token_step")
_NO_TOTALS = empty(dict.fromkeys(("request", *_STEPS_OF_REQUEST), pl.Int64))


@dataclass(frozen=True)
class Served:
    """The steps of a world's servers."""

    launches: pl.DataFrame  # finished, in these steps
    # of the steps, and of requests from their first step to their last one's end
    phases: pl.DataFrame
    requests: pl.DataFrame  # step_requests without run_id
    totals: pl.DataFrame  # served_requests without run_id
    unnamed: int = 0  # requests of steps whose ids the trace lacks
    steps: int = 0  # of the servers


def serve(launches: pl.DataFrame, markers: pl.DataFrame, processes: pl.Series) -> Served:
    """Place launches in the steps of servers.

    A step that several processes mark, as their launches are the same instances, is one step. Steps are
    numbered by start.

    Args:
        launches: from finish_launches, with `marker` and `launch_instance`.
        markers: frames.MARKERS, as launches number them.
        processes: of each marker; a thread has its own sequence of steps.
    """
    if not (markers["phase"] == SERVER_STEP).any():
        return Served(launches, _NO_PHASES, _NO_REQUESTS, _NO_TOTALS)
    numbered = markers.with_columns(process=processes).with_row_index("marker")
    own = own_markers(numbered)
    marks = numbered.with_columns(pl.col("marker").cast(pl.Int64)).filter(
        pl.col("phase") == SERVER_STEP
    )
    marks = _numbered(marks, launches)
    steps = (
        marks.sort("start_ps", "marker")
        .group_by("step", maintain_order=True)
        .agg(pl.col("engine", "kind", "requests", "tokens", "marker", "start_ps").first())
        .sort("step")
    )
    named = requests_of_steps(
        marks.filter(pl.col("marker").is_in(steps["marker"].implode())), steps, own
    )
    phased = with_phase(steps, named)
    placed = marks.select("marker", "host", "step", "start_ps", "duration_ps").join(
        phased.select("step", "phase", "requests", "tokens", *PROMPT_BOUNDS),
        on="step",
        maintain_order="left",
    )
    of_launch = placed.select("marker", server_phase="phase", server_step="step")
    moved = launches.join(of_launch, on="marker", how="left", maintain_order="left")
    is_served = pl.col("phase") == SERVER_STEP
    moved = moved.with_columns(
        phase=pl.when(is_served).then("server_phase").otherwise("phase"),
        step=pl.when(is_served).then("server_step").otherwise("step"),
    ).select(launches.columns)
    hosts = placed.select("host", "step").unique(maintain_order=True)
    unnamed = (phased["requests"] - phased["named"]).clip(lower_bound=0)
    rows = placed.drop("marker").with_columns(request=pl.lit(None, pl.Int64), source=pl.lit(SOURCE))
    whole = unnamed.sum() == 0 and not named.is_empty()
    return Served(
        launches=moved,
        phases=pl.concat([rows, _spans(named, placed, moved)], how="diagonal") if whole else rows,
        requests=hosts.join(named, on="step", maintain_order="left").drop("position", "engine"),
        totals=totals(named),
        unnamed=int(unnamed.sum()),
        steps=steps.height,
    )


def _numbered(marks: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Markers with `step`, and with `engine`: threads that share a step or a request are of one."""
    shared = (
        launches.drop_nulls("marker")
        .filter(pl.col("marker").is_in(marks["marker"].implode()))
        .select("marker", "launch_instance")
        .unique()
    )
    joined = marks.drop("step").with_columns(
        label=_labels(marks["marker"], shared, "launch_instance")
    )
    first = joined.group_by("label").agg(
        first_ps=pl.col("start_ps").min(), least=pl.col("marker").min()
    )
    order = (
        first.sort("first_ps", "least")
        .with_row_index("step")
        .select("label", pl.col("step").cast(pl.Int64))
    )
    stepped = joined.join(order, on="label", maintain_order="left")
    sequence = pl.struct("process", "thread").rank("dense").cast(pl.Int64)
    stepped = stepped.with_columns(sequence=sequence)
    of_step = stepped.select("sequence", shared=pl.format("step {}", "step"))
    named = stepped.select("sequence", "ids").explode("ids").drop_nulls().unique()
    of_id = named.select("sequence", shared=pl.format("id {}", "ids"))
    pairs = pl.concat([of_step, of_id]).unique()
    engine = _labels(stepped["sequence"], pairs, "shared")
    return stepped.with_columns(engine=engine).drop("label", "sequence")


def _labels(members: pl.Series, pairs: pl.DataFrame, shared: str) -> pl.Series:
    """Of each member the least member that it is connected with through something that both share.

    Args:
        members: of which labels are wanted.
        pairs: (a member, named as `members`; what it shares, named `shared`).
        shared: name of the second column.
    """
    label = pairs.with_columns(label=members.name)
    while True:
        known = label.with_columns(pl.col("label").min().over(shared))
        known = known.with_columns(pl.col("label").min().over(members.name))
        if known["label"].equals(label["label"]):
            break
        label = known
    found = label.select(members.name, "label").unique()
    joined = members.to_frame().join(found, on=members.name, how="left", maintain_order="left")
    return joined.select(pl.coalesce("label", members.name)).to_series()


def _spans(named: pl.DataFrame, placed: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Rows of phases for requests: from the start of the first step's marker to the end of the last one, on
    the host or on a device."""
    end = pl.col("start_ps") + pl.col("duration_ps")
    ran = launches.drop_nulls("marker").group_by("marker").agg(ran_ps=end.max())
    times = (
        placed.join(ran, on="marker", how="left", maintain_order="left")
        .with_columns(end_ps=pl.max_horizontal(end, "ran_ps"))
        .group_by("step", maintain_order=True)
        .agg(pl.col("host").first(), pl.col("start_ps").min(), pl.col("end_ps").max())
    )
    return (
        named.join(times, on="step", maintain_order="left")
        .group_by("request", maintain_order=True)
        .agg(
            pl.col("host").first(),
            pl.col("start_ps").min(),
            duration_ps=pl.col("end_ps").max() - pl.col("start_ps").min(),
        )
        .with_columns(phase=pl.lit("request"), source=pl.lit(SOURCE))
    )


def moved_totals(found: pl.DataFrame, first_step: int) -> pl.DataFrame:
    """Totals of a world whose steps are numbered from `first_step` on."""
    if found.is_empty():
        return found
    return found.with_columns(pl.col(name) + first_step for name in _STEPS_OF_REQUEST)
