"""Which rank a row of PyTorch's profiler is of, where one file holds the traces of several ranks."""

from __future__ import annotations

import re

import polars as pl

from xlahouse.ingest.chrome.columns import Trace

# `[TP01] 0`, as tools that merge traces write pids or names of processes; `[TP00-DP01] 0` is of two axes.
_LABEL = re.compile(r"^\[((?:[A-Za-z]+\d+)(?:[-_ ,]+[A-Za-z]+\d+)*)\]")
_NUMBER = re.compile(r"(\d+)$")


def with_rank(rows: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """Rows with the label of their rank as `rank`; empty where nothing states one."""
    labels = {pid: _label(pid, trace) for pid in rows["pid"].unique().drop_nulls().to_list()}
    return rows.with_columns(
        rank=pl.col("pid").replace_strict(labels, default="", return_dtype=pl.String)
    )


def _label(pid: str, trace: Trace) -> str:
    words = (pid, trace.processes.get(pid, ""), trace.labels.get(pid, ""))
    return next((found[1] for word in words if (found := _LABEL.match(word))), "")


def rank_numbers(labels: list[str]) -> dict[str, int] | None:
    """Rank of each label; None where labels do not state it, as those of several axes."""
    if not labels or any(not label or re.search(r"[-_ ,]", label) for label in labels):
        return None
    found = {label: int(match[1]) for label in labels if (match := _NUMBER.search(label))}
    axes = {_NUMBER.sub("", label) for label in labels}
    return found if len(axes) == 1 and len(set(found.values())) == len(labels) else None
