"""Setups that differ only in parallelism, and their names, for the pages over runs."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.labels import NAME_BESIDE, clipped
from xlahouse.reports.charts.units import plural

# What a setup does, for people: columns of `runs`, which scaling_v2 has too.
WORKLOAD = """concat_ws(
            ', ',
            coalesce(model, 'unknown model'),
            'batch ' || coalesce(cast(batch_size as varchar), 'unknown'),
            coalesce(cast(prompt_tokens as varchar), '?') || ' + '
            || coalesce(cast(output_tokens as varchar), '?') || ' tokens',
            dtype,
            device_kind
        )"""
# Runs with their setup, its label, and the subject (workload) whose setups are compared.
MEMBERS_SQL = f"""
with named as (
    select
        *,
        coalesce(setup, run_id) as setup_key,
        {WORKLOAD} as subject,
        coalesce(parallelism, 'unknown mesh')
        || case when microbatches > 1 then ' m' || microbatches else '' end as plain_label
    from runs
    where list_contains($runs, run_id)
), labelled as (
    select
        subject,
        setup_key,
        count(*) as runs,
        min(coalesce(name, run_id)) as name,
        min(plain_label) as plain_label
    from named
    group by subject, setup_key
), members as (
    select
        named.run_id,
        named.model,
        named.batch_size,
        named.subject,
        named.setup_key,
        labelled.runs,
        labelled.plain_label || case
            when count(*) over (partition by named.subject, labelled.plain_label) > labelled.runs
                then ' (' || labelled.name || ')'
            else ''
        end as label
    from named
    inner join labelled using (subject, setup_key)
)"""

# More charts would be too many to read; the table and its CSV have every setup.
MAX_COMPARED_WORKLOADS = 6
MAX_SETUPS = 30


def subjects(rows: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """The subjects with the most setups, each with the rows of at most MAX_SETUPS setups."""
    counts = (
        rows.group_by("subject", maintain_order=True)
        .agg(pl.col("setup_key").n_unique())
        .sort("setup_key", descending=True, maintain_order=True)
    )
    return [
        (name, first_setups(rows.filter(pl.col("subject") == name)))
        for name in counts["subject"].head(MAX_COMPARED_WORKLOADS)
    ]


def first_setups(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the first MAX_SETUPS setups, with labels that fit beside a bar."""
    kept = rows["setup_key"].unique(maintain_order=True).head(MAX_SETUPS)
    # Two labels may differ at either end.
    shown = clipped(pl.col("label"), NAME_BESIDE, end=10).alias("shown")
    return rows.filter(pl.col("setup_key").is_in(kept.to_list())).with_columns(shown)


def left_out(rows: pl.DataFrame) -> list[str]:
    """Sentences on the subjects and setups that have no chart."""
    found = []
    count = rows["subject"].n_unique()
    if count > MAX_COMPARED_WORKLOADS:
        found.append(
            f"Drawn: the {MAX_COMPARED_WORKLOADS} of {count:,} workloads with the most "
            "setups; the CSV has all."
        )
    if rows.group_by("subject").agg(pl.col("setup_key").n_unique())["setup_key"].max() > MAX_SETUPS:  # type: ignore[operator]
        found.append(f"A chart has at most {MAX_SETUPS} setups; the CSV has all.")
    return found


def coverage(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> str:
    """How many setups and workloads the runs come to."""
    setups, workloads = rows["setup_key"].n_unique(), rows["subject"].n_unique()
    return (
        f"{plural(len(runs), 'run')}, {plural(setups, 'setup')} of {plural(workloads, 'workload')}."
    )


def virtual_note(runs: Sequence[PageFacts]) -> list[str]:
    """How far times of virtual devices are valid."""
    if not any(facts.inferred for facts in runs):
        return []
    return [
        "Virtual devices share the cores of one machine: which setup is faster there says "
        "nothing about an accelerator; bytes and counts are valid."
    ]
