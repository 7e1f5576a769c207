"""What must hold on every schedule: parts add up, and order, clocks and device numbers do not matter."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import polars.selectors as cs
from hypothesis import strategies as st

from tests.layers import layered
from tests.synth.strategy import runs
from tests.synth.variants import double, renumber, shift, shuffle
from tests.synth.write import write_run
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.library import shipped
from xlahouse.sql.warehouse import Warehouse

VIEWS = ("traffic_volume", "traffic_matrix", "collective_bandwidth", "collective_axis")
VIEWS += ("device_time", "comm_compute", "latency", "step_latency", "run_summary", "run_mesh")
FREE = ("run_id", "name")  # these distinguish the variants of a run
POINTS = ("start_ps", "first_op_ps", "end_ps")  # the other times are durations
# What stands for devices' numbers: the mesh's order is part of the setup, a permute's groups go by their
# smallest device, and instances that start together by their groups.
NUMBERED = ("setup", "group_index", "instance")
BOUND_PS = 1_000_000  # a done op that waits longer saw its transfer end (METRICS, Bandwidth)
HOURS_NS = 20_000_000_000_000  # so that ps do not fit into a double's 53 bits
PARTS = ("compute", "exposed", "exposed_copy", "sync_wait", "idle")
SUMS = ("window", "collective", "overlapped", "copy", "busy", *PARTS)
# Several runs an example share what it costs to open a warehouse and to plan the views.
SCHEDULES = st.lists(runs(), min_size=1, max_size=5)
SEEDS = st.integers(0, 1 << 32)


@dataclass(frozen=True)
class Written:
    """A run's files and what is asked about them; label: which run and which variant of it."""

    label: str
    folder: Path


def write(run, number, variant, base):
    """Write a run below `base`, under a name of its own."""
    label = f"{number} {variant}"
    folder = base / "traces" / label.replace(" ", "_")
    write_run(replace(run, name=label), folder)
    return Written(label, folder)


def ask(base):
    """label -> view -> rows, for all runs written below `base`; `collectives` is among the views."""
    results = ingest_paths([str(base / "traces")], str(base / "warehouse"))
    queries = {view: f"select * from {view}_v1" for view in VIEWS}
    queries["collectives"] = "select * from collectives"
    shared = shipped().shared({f"{view}_v1"} for view in VIEWS)
    with Warehouse(str(base / "warehouse")) as whole, whole.keeping(shared) as warehouse:
        tables = {name: warehouse.query(sql).pl() for name, sql in queries.items()}
    return {
        result.name: {
            name: rows.filter(run_id=result.run_id).drop(FREE, strict=False)
            for name, rows in tables.items()
        }
        for result in results
    }


def differing(found, expected):
    """Rows of two tables that differ, in any order; sums of floats differ in their last digits."""
    assert found.schema == expected.select(found.columns).schema
    exact = found.select(~cs.float()).columns
    floats = found.select(cs.float()).columns
    found, expected = (rows.select(*exact, *floats).sort(pl.all()) for rows in (found, expected))
    if found.height != expected.height:
        odd = [found.join(expected, on=exact, how="anti", nulls_equal=True)]
        odd.append(expected.join(found, on=exact, how="anti", nulls_equal=True))
        return {"rows": (found.height, expected.height), "odd": [o.head(2).rows() for o in odd]}
    pairs = pl.concat([found, expected.rename("expected {}".format)], how="horizontal")
    same = []
    for name in found.columns:
        one, other = pl.col(name), pl.col(f"expected {name}")
        same.append(one.eq_missing(other))
        if name in floats:
            same[-1] |= ((one - other).abs() <= 1e-12 * other.abs()).fill_null(False)
    wrong = pairs.filter(~pl.all_horizontal(same))
    return wrong.row(0, named=True) if wrong.height else {}


def compare(found, expected):
    """view -> what differs, of two runs."""
    differences = {view: differing(found[view], expected[view]) for view in VIEWS}
    return {view: rows for view, rows in differences.items() if rows}


def change(answers, expressions):
    """The answers with columns replaced: `expressions` gives a view's for a table."""
    return {view: rows.with_columns(expressions(rows)) for view, rows in answers.items()}


def without(answers, *columns):
    return {view: rows.drop(columns, strict=False) for view, rows in answers.items()}


def without_numbers(answers):
    """The answers without what stands for devices' numbers: launches of one program that start together on
    different devices follow each other by device, and without a marker a step is such a number."""

    def steps(rows):
        numbered = {"request", "step"} <= set(rows.columns)
        return [pl.when(pl.col("request").is_not_null()).then("step")] if numbered else []

    return without(change(answers, steps), *NUMBERED)


def wire(collectives):
    """Bytes that a device sends, worked out from METRICS (Bytes) and not by the view."""
    n = pl.col("group_size")
    share = {"collective-permute": 1.0, "all-reduce": 2 * (n - 1) / n}
    share |= dict.fromkeys(("all-gather", "reduce-scatter", "all-to-all"), (n - 1) / n)
    each = [pl.when(pl.col("kind") == kind).then(factor) for kind, factor in share.items()]
    return collectives.with_columns(wire_bytes=pl.col("payload_bytes") * pl.coalesce(each))


def wrong_volume(answers):
    key = ("device_id", "phase", "kind")
    sums = [pl.col("payload_bytes").sum(), pl.col("wire_bytes").sum()]
    rows = wire(answers["collectives"]).group_by(key)
    found = answers["traffic_volume"].group_by(key).agg(pl.col("collectives").sum(), *sums)
    return differing(found, rows.agg(pl.len().cast(pl.Int64).alias("collectives"), *sums))


def wrong_matrix(answers):
    algorithms = pl.DataFrame({"algorithm": ["ring", "bidirectional_ring", "direct"]})
    key = ("phase", "axis", "kind", "algorithm", "source_device_id")
    found = answers["traffic_matrix"].group_by(key).agg(pl.col("bytes").sum())
    sent = answers["traffic_volume"].filter(pl.col("wire_bytes") != 0)
    sent = sent.rename({"device_id": "source_device_id", "wire_bytes": "bytes"})
    return differing(found, sent.join(algorithms, how="cross").select(*key, "bytes"))


def broken(rows, laws):
    """The laws that some row breaks, with one such row."""
    failing = {law: rows.filter(~holds) for law, holds in laws.items()}
    return {law: found.row(0, named=True) for law, found in failing.items() if found.height}


def broken_times(rows):
    ps = {name: pl.col(f"{name}_ps") for name in SUMS}
    following = pl.col("start_ps").shift(-1).over("device_id", order_by="start_ps")
    laws = {f"{name} >= 0": ps[name] >= 0 for name in SUMS}
    laws |= {
        "window = parts": ps["window"] == pl.sum_horizontal(ps[name] for name in PARTS),
        "busy": ps["busy"] == ps["compute"] + ps["exposed"] + ps["exposed_copy"],
        "exposed": ps["exposed"] == ps["collective"] - ps["overlapped"],
        "overlapped": ps["overlapped"] <= pl.min_horizontal(ps["collective"], ps["compute"]),
        "exposed copy": ps["exposed_copy"] <= ps["copy"],
        "apart": (pl.col("start_ps") + ps["window"] <= following).fill_null(True),
    }
    return broken(rows, laws)


def wrong_sums(answers):
    sums = [pl.col(f"{name}_ps").sum() for name in SUMS]
    found = answers["comm_compute"].select("phase", *(f"{name}_ps" for name in SUMS))
    return differing(found, answers["device_time"].group_by("phase").agg(sums))


def broken_transfers(rows):
    carried = pl.col("algbw_bytes_per_s") * pl.col("transfer_ps") / 1e12
    laws = {
        "participants": pl.col("participants_seen").is_between(1, "group_size"),
        "transfer": pl.col("transfer_ps").is_between(1, "duration_ps"),
        "skew": (pl.col("skew_ps") >= 0).fill_null(True),
        "algbw": (carried / pl.col("payload_bytes") - 1).abs() < 1e-12,
    }
    return broken(rows.filter(pl.col("payload_bytes") > 0), laws)


def assert_nothing(found):
    """Fails with what was found, by run and by what it is about."""
    assert {label: rows for label, rows in found.items() if rows} == {}


@layered(1, 16, SCHEDULES)
def test_parts_add_up(schedules):
    with TemporaryDirectory() as folder:
        for number, run in enumerate(schedules):
            write(run, number, "plain", Path(folder))
        for label, answers in ask(Path(folder)).items():
            assert_nothing(
                {
                    (label, "volume = collectives"): wrong_volume(answers),
                    (label, "matrix = volume"): wrong_matrix(answers),
                    (label, "window = parts"): broken_times(answers["device_time"]),
                    (label, "comm_compute = device_time"): wrong_sums(answers),
                    (label, "bandwidth"): broken_transfers(answers["collective_bandwidth"]),
                }
            )


def renumbered(answers, numbers):
    """What the answers become where devices have other numbers."""

    def columns(rows) -> Iterable[pl.Expr]:
        names = ("device_id", "source_device_id", "target_device_id")
        present = [name for name in names if name in rows.columns]
        return [pl.col(name).replace_strict(numbers, return_dtype=pl.Int64) for name in present]

    return change(answers, columns)


@layered(1, 10, SCHEDULES, SEEDS)
def test_order_and_device_numbers_do_not_matter(schedules, seed):
    rng, numbers = random.Random(seed), {}
    with TemporaryDirectory() as folder:
        for number, run in enumerate(schedules):
            write(run, number, "plain", Path(folder))
            shuffle(write(run, number, "shuffled", Path(folder)).folder, rng)
            ids = rng.sample(run.devices, len(run.devices))
            numbers[number] = dict(zip(run.devices, ids, strict=True))
            renumber(write(run, number, "renumbered", Path(folder)).folder, numbers[number])
        found = ask(Path(folder))
    for number in numbers:
        plain, other = found[f"{number} plain"], found[f"{number} renumbered"]
        expected = without_numbers(renumbered(plain, numbers[number]))
        assert_nothing(
            {
                (number, "shuffled"): compare(found[f"{number} shuffled"], plain),
                (number, "renumbered"): compare(without_numbers(other), expected),
            }
        )


def shifted(answers, by):
    """What the answers become where everything happens `by` ps later after time zero."""
    return change(answers, lambda rows: [(cs.by_name(*POINTS, require_all=False) + by)])


def doubled(answers):
    """What the answers become where everything takes twice as long."""
    seconds = cs.ends_with("_s") & ~cs.ends_with("_per_s") & ~cs.starts_with("measured_")
    rates = cs.ends_with("_per_s") | cs.by_name("utilization_ratio", require_all=False)
    changed = change(answers, lambda rows: [(cs.ends_with("_ps") | seconds) * 2, rates / 2])
    # Whether a wait is long enough to be sure of a transfer's end is not a matter of scale.
    waits = changed["collectives"].group_by("instance").agg(pl.col("wait_ps").max())
    bound = pl.when("is_async").then(pl.col("wait_ps") <= BOUND_PS).otherwise(False)
    rows = changed["collective_bandwidth"].join(waits, on="instance", how="left")
    rows = rows.with_columns(is_bound=bound).drop("wait_ps")
    return changed | {"collective_bandwidth": rows}


@layered(1, 10, SCHEDULES, SEEDS)
def test_times_move_and_scale(schedules, seed):
    rng, moves = random.Random(seed), []
    with TemporaryDirectory() as folder:
        for number, run in enumerate(schedules):
            write(run, number, "plain", Path(folder))
            double(write(run, number, "doubled", Path(folder)).folder)
            late = write(run, number, "shifted", Path(folder)).folder
            later_ns = rng.randrange(-HOURS_NS, HOURS_NS)
            moves.append(shift(late, lambda: rng.randrange(HOURS_NS), later_ns))
        found = ask(Path(folder))
    for number, by in enumerate(moves):
        plain, other = found[f"{number} plain"], found[f"{number} shifted"]
        expected = without(shifted(plain, by), "captured_at")
        assert_nothing(
            {
                (number, "shifted"): compare(without(other, "captured_at"), expected),
                (number, "doubled"): compare(found[f"{number} doubled"], doubled(plain)),
            }
        )
