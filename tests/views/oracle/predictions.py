"""METRICS, three words: predictions beside what was measured, by comparing every run with every other."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from statistics import mean, median
from typing import Any

from tests.views.oracle.drawn import Row

WORK = ("model", "parallelism", "batch_size", "prompt_tokens", "output_tokens")
REST = ("layers", "dtype", "microbatches", "expected_device_count", "framework_versions")
CHANGES = ("nothing", "chip=v5p", "chip=v4", "ici=2x", "host=0", "chip=v4, no-skew")
# FLOP/s, HBM and link of METRICS, by kind.
PEAKS = {"v4": (2.75e14, 1.2e12, 4.5e10), "v5p": (4.59e14, 2.8e12, 9e10)}
Tables = dict[str, list[Row]]


def draw(random: Random, count: int) -> Tables:
    """Runs that differ in little, so that many are alike; devices of one run have steps of odd lengths."""
    tables: Tables = {
        n: [] for n in ("runs", "devices", "device_steps", "forecast", "run_settings")
    }
    for number in range(count):
        run_id = f"r{number}"
        source = random.choice(["xplane", "chrome", None, "predicted", "predicted", "compiled"])
        row: Row = {"run_id": run_id, "source": source, "setup": random.choice(["s", "t", None])}
        row |= dict.fromkeys(WORK, 1) | {"model": random.choice("mmmn"), "parallelism": "tp2"}
        row |= dict.fromkeys(REST) | {"layers": random.choice([2, 2, 2, None])}
        if source == "predicted":
            row |= {"change": random.choice(CHANGES), "setup": f"p{number}"}
            row["parent_run_id"] = f"r{random.randrange(count)}"
        tables["runs"].append(row)
        peaks = random.choice([None, None, {"ici_bytes_per_s": 9e10}])
        tables["run_settings"].append(
            {"run_id": run_id, "device_kind": random.choice(["v4", "v5p"]), "peaks": peaks}
        )
        for device in range(random.choice([1, 2])):
            tables["devices"].append(
                {"run_id": run_id, "device_id": device, "world": 0, "core": "tensorcore"}
            )
            if source != "compiled":
                tables["device_steps"] += _steps(random, run_id, device)
        if source == "compiled":
            for phase in ("prefill", "decode"):
                best = random.randrange(10, 40)
                step = {"run_id": run_id, "phase": phase, "optimistic_ps": best}
                tables["forecast"].append(step | {"pessimistic_ps": best + random.randrange(20)})
                quick = step | {"change": "ici=2x", "pessimistic_ps": best}
                tables["forecast"].append(quick)
    return tables


def _steps(random: Random, run_id: str, device: int) -> Iterator[Row]:
    at = random.randrange(5)
    for step in range(random.randrange(1, 5)):
        length = random.randrange(5, 60)
        phase = "warmup" if random.random() < 0.1 else ("decode" if step else "prefill")
        yield (
            {"run_id": run_id, "device_id": device, "request": 0, "step": step, "phase": phase}
            | {"start_ps": at, "duration_ps": length}
        )
        at += length + random.randrange(9)


def predicted_steps(tables: Tables) -> list[Row]:
    """Each prediction and phase, with the measured runs of what was predicted."""
    found = []
    for row in tables["runs"]:
        for phase in ("prefill", "decode"):
            interval = _interval(tables, row, phase)
            if interval is None:
                continue
            place = 0 if row["source"] == "predicted" else 1
            others = [other for other in tables["runs"] if _measures(tables, other, row)]
            times = [t[place] for other in others if (t := _times(tables, other, phase))]
            found.append(
                {
                    "run_id": row["run_id"],
                    "method": "replay" if place == 0 else "forecast",
                    "change": row.get("change"),
                    "phase": phase,
                    "runs": len(times),
                    "error_ratio": _error(interval, median(times)) if times else None,
                }
            )
    return found


def prediction_errors(steps: list[Row]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """(method, change, phase) -> predictions, pairs, median and largest error."""
    found = {}
    for kind in {(row["method"], row["change"], row["phase"]) for row in steps}:
        mine = [r for r in steps if (r["method"], r["change"], r["phase"]) == kind]
        errors = [row["error_ratio"] for row in mine if row["error_ratio"] is not None]
        middle = median(errors) if errors else None
        most = max(map(abs, errors), default=None)
        found[kind] = (len(mine), len(errors), middle, most)
    return found


def _interval(tables: Tables, row: Row, phase: str) -> tuple[float, float] | None:
    if row["source"] == "predicted":
        times = _times(tables, row, phase)
        return None if times is None else (times[0], times[0])
    for one in tables["forecast"]:
        if (one["run_id"], one["phase"], one.get("change")) == (row["run_id"], phase, None):
            return one["optimistic_ps"], one["pessimistic_ps"]
    return None


def _error(interval: tuple[float, float], measured: float) -> float:
    if interval[0] <= measured <= interval[1]:
        return 0.0
    near = min(interval, key=lambda end: abs(end - measured))
    return near / measured - 1


def _times(tables: Tables, row: Row, phase: str) -> tuple[float, float] | None:
    """Mean period and mean window of the phase's steps."""
    periods, windows, ended = [], [], dict[int, int]()
    for step in (step for step in tables["device_steps"] if step["run_id"] == row["run_id"]):
        end = step["start_ps"] + step["duration_ps"]
        if step["phase"] == phase:
            periods.append(end - ended.get(step["device_id"], step["start_ps"]))
            windows.append(step["duration_ps"])
        ended[step["device_id"]] = end
    return (mean(periods), mean(windows)) if periods else None


def _measures(tables: Tables, other: Row, row: Row) -> bool:
    """Whether `other` is a measured run of what `row` predicts."""
    if other["source"] in ("predicted", "compiled"):
        return False
    if row["source"] == "compiled":
        return row["setup"] is not None and other["setup"] == row["setup"]
    if row["change"] not in ("nothing", "chip=v5p", "chip=v4", "ici=2x"):
        return False
    alike = all(other[name] == row[name] for name in (*WORK, *REST))
    same = _peaks(tables, other) == _peaks(tables, row)
    return alike and same and other["run_id"] != row["parent_run_id"]


def _peaks(tables: Tables, row: Row) -> tuple[float, ...]:
    told = next(each for each in tables["run_settings"] if each["run_id"] == row["run_id"])
    flops, hbm, link = PEAKS[told["device_kind"]]
    return flops, hbm, (told["peaks"] or {}).get("ici_bytes_per_s", link)
