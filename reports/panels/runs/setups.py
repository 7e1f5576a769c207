"""Setups that differ only in parallelism, and their names, for the pages over runs."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.labels import NAME_BESIDE, clipped
from xlahouse.reports.charts.units import plural

_TOKENS = """coalesce(cast(prompt_tokens as varchar), '?') || ' + '
            || coalesce(cast(output_tokens as varchar), '?') || ' tokens'"""
_BATCH = "'batch ' || coalesce(cast(batch_size as varchar), 'unknown')"
# What a setup does, for people: columns of `runs`, which scaling_v3 has too.
WORKLOAD = f"""concat_ws(
            ', ', coalesce(model, 'unknown model'), {_BATCH}, {_TOKENS}, dtype, device_kind
        )"""
# The same of all batches.
FAMILY = f"""concat_ws(
            ', ', coalesce(model, 'unknown model'), {_TOKENS}, dtype, device_kind
        )"""
# What was compiled or predicted is a setup of its own beside what was measured.
EVIDENCE = "case when source in ('compiled', 'predicted') then source else 'measured' end"
# Runs with their setup, its label, and the subject (workload) whose setups are compared. A setup whose model
# is not known, with what was predicted from it, is a workload of its own: it may be any model.
MEMBERS_SQL = f"""
with parents as (
    select run_id as parent_run_id, setup as parent_setup, name as parent_name
    from runs
), spelled as (
    -- Compilers and traces spell one kind of device in different cases.
    select * replace (min(device_kind) over (partition by lower(device_kind)) as device_kind)
    from runs
), named as (
    select
        *,
        {EVIDENCE} as evidence,
        coalesce(setup, run_id)
        || case when source in ('compiled', 'predicted') then ' ' || source else '' end as setup_key,
        case when model is null
            then ' of ' || min(coalesce(parent_name, name, run_id)) over (
                partition by coalesce(parent_setup, parent_run_id, setup, run_id)
            )
            else ''
        end as alone,
        {WORKLOAD} || alone as subject,
        {FAMILY} || alone as family,
        coalesce(parallelism, 'unknown mesh')
        || case when microbatches > 1 then ' m' || microbatches else '' end
        || case when source in ('compiled', 'predicted') then ', ' || source else '' end
            as plain_label
    from spelled
    left join parents using (parent_run_id)
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
        coalesce(named.parallelism, 'unknown mesh') as parallelism,
        named.evidence,
        named.subject,
        named.family,
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

# Output tokens/s of a setup per chip, or per device where chips are not known: the median of its runs.
CHIP_RATE = """median(
            coalesce(output_tokens_per_s_per_chip, output_tokens_per_s / nullif(device_count, 0))
        )"""
RATED_SQL = f"""rated as (
    select setup_key, {CHIP_RATE} as chip_tokens_per_s
    from run_summary_v2
    inner join members using (run_id)
    group by setup_key
)"""

# More charts would be too many to read; the table and its CSV have every setup.
MAX_FAMILIES = 4
MAX_SETUPS = 40
MAX_SENTENCES = 6  # about single workloads


def families(rows: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """The families with the most setups, each with its rows: workloads that differ in the batch alone."""
    return _with_most_setups(rows, "family", MAX_FAMILIES)


def subjects(rows: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """The subjects with the most setups, each with its rows."""
    return _with_most_setups(rows, "subject", MAX_SENTENCES)


def _with_most_setups(rows: pl.DataFrame, by: str, most: int) -> list[tuple[str, pl.DataFrame]]:
    counts = (
        rows.group_by(by, maintain_order=True)
        .agg(pl.col("setup_key").n_unique())
        .sort("setup_key", descending=True, maintain_order=True)
    )
    return [(name, rows.filter(pl.col(by) == name)) for name in counts[by].head(most)]


def best_setups(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the MAX_SETUPS setups with the most output tokens/s per chip, in the order of `rows`.

    Args:
        rows: with `setup_key`, `label`, `batch_size` and the `chip_tokens_per_s` of RATED_SQL.

    Returns:
        Those rows with `shown`, a label that fits beside a bar: with the batch, where it differs.
    """
    setups = rows.unique("setup_key", keep="first", maintain_order=True)
    ranked = setups.sort("chip_tokens_per_s", descending=True, nulls_last=True, maintain_order=True)
    kept = ranked["setup_key"].head(MAX_SETUPS)
    label = pl.col("label")
    if rows["batch_size"].n_unique() > 1:
        batch = pl.col("batch_size").cast(pl.String).fill_null("?")
        label = pl.format("batch {} · {}", batch, label)
    # Two labels may differ at either end.
    shown = clipped(label, NAME_BESIDE, end=10).alias("shown")
    return rows.filter(pl.col("setup_key").is_in(kept.to_list())).with_columns(shown)


def left_out(rows: pl.DataFrame) -> list[str]:
    """Sentences on the families and setups that have no chart."""
    found = []
    count = rows["family"].n_unique()
    if count > MAX_FAMILIES:
        found.append(
            f"Drawn: the {MAX_FAMILIES} of {count:,} models and lengths with the most setups; the CSV has "
            "all."
        )
    if rows.group_by("family").agg(pl.col("setup_key").n_unique())["setup_key"].max() > MAX_SETUPS:  # type: ignore[operator]
        found.append(
            f"A chart has at most {MAX_SETUPS} setups, the ones with the most output tokens/s per chip; "
            "the CSV has all."
        )
    return found


def shared_words(rows: pl.DataFrame) -> tuple[str, ...]:
    """The parts of a family's name, such as model and device kind, that all families have."""
    names = [name.split(", ") for name in rows["family"].unique(maintain_order=True)]
    return tuple(part for part in names[0] if all(part in name for name in names)) if names else ()


def coverage(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> str:
    """How many setups and workloads the runs come to."""
    setups, workloads = rows["setup_key"].n_unique(), rows["subject"].n_unique()
    return (
        f"{plural(len(runs), 'run')}, {plural(setups, 'setup')} of {plural(workloads, 'workload')}."
    )


def unknown_models(runs: Sequence[PageFacts]) -> list[str]:
    """That setups of unknown models are not ranked against each other."""
    if sum(facts.row["model"] is None for facts in runs) < 2:
        return []
    return [
        "Runs whose model is not known are not ranked against each other; a workload card states it: "
        "`xlahouse ingest TRACES --card FILE`."
    ]


def virtual_note(runs: Sequence[PageFacts]) -> list[str]:
    """How far times of virtual devices are valid."""
    if not any(facts.inferred for facts in runs):
        return []
    return [
        "Virtual devices share the cores of one machine: which setup is faster there says "
        "nothing about an accelerator; bytes and counts are valid."
    ]
