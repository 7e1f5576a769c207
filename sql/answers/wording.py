"""A summary as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from xlahouse.capture.commands import located
from xlahouse.capture.words import NO_OPS, plural
from xlahouse.sql.answers.lagging import NO_LAG, lagging_text
from xlahouse.sql.answers.memory import NO_MEMORY, memory_text
from xlahouse.sql.answers.pipeline import pipeline_text
from xlahouse.sql.answers.split import Part, Split
from xlahouse.sql.answers.summary import Latency, Summary
from xlahouse.sql.answers.words import duration, unit_of
from xlahouse.sql.drawing import visible

MOST_DATA = 10  # findings about the data; `xlahouse check` has all
BAR = 30  # characters of the longest bar


def summary_lines(found: Summary, warehouse: str) -> Iterator[str]:
    """The verdict first; then the split, latencies, findings, and what the data lacks.

    Args:
        found: about a run.
        warehouse: that has the run; commands name it.
    """
    yield visible(f"{found.name or found.run_id}: {found.verdict}")
    setup = ", ".join(f"{name} {value}" for name, value in found.setup.items() if value is not None)
    yield visible(f"{found.run_id}; {setup or 'setup not known'}; {found.coverage}")
    for split in (found.split, found.prefill):
        if split:
            yield ""
            yield from _split_lines(split)
    yield ""
    yield _latency_line("TTFT", found.ttft)
    yield _latency_line("TPOT", found.tpot)
    memory = memory_text(found.memory) if found.memory else f"not known, because: {NO_MEMORY}"
    yield visible(f"memory: {memory}")
    lagging = lagging_text(found.lagging) if found.lagging else f"not known, because: {NO_LAG}"
    yield visible(f"devices: {lagging}")
    if found.pipeline:
        yield f"pipeline: {pipeline_text(found.pipeline)}"
    for place, finding in enumerate(found.findings, start=1):
        yield ""
        yield visible(f"{place}. {finding.text}")
        yield f"   lever: {finding.lever}"
        query = f"xlahouse query \"from {finding.view} where run_id = '{found.run_id}'\""
        yield f"   proof: {located(query, warehouse)}"
        report = f"xlahouse report {finding.page} --run {found.run_id}"
        yield f"   chart: {located(report, warehouse)}"
    yield ""
    for note in found.notes:
        yield visible(f"note: {note}")
    for issue in found.data[:MOST_DATA]:
        yield visible(f"{issue.severity}: {issue.code}: {issue.message} ({issue.count:,})")
    if len(found.data) > MOST_DATA:
        check = located("xlahouse check", warehouse)
        yield f"and {len(found.data) - MOST_DATA} more findings about the data: {check}"
    if not found.data:
        yield "no finding about the data"


def title_of(split: Split) -> str:
    """What the parts of a split add up to."""
    if split.whole == "marker":
        return "mean prefill of a device, from its marker"
    if split.phase is None:
        return "mean time of a device in the trace"
    if split.per == "device":
        return f"mean time of a device in {split.programs} programs"
    kind = "step" if split.phase == "step" else f"{split.phase} step"
    return f"mean {kind}'s {split.whole} of a device"


def _split_lines(split: Split) -> Iterator[str]:
    unit, factor = unit_of(split.mean_ps)
    yield f"{title_of(split)}: {split.mean_ps / factor:.6g} {unit}"
    names = [_part_name(part) for part in split.parts]
    width = max(map(len, names))
    for name, part in zip(names, split.parts, strict=True):
        bar = "#" * round(BAR * part.share)
        line = (
            f"  {name.ljust(width)}  {part.mean_ps / factor:12.6f} {unit}  {part.share:7.2%}  {bar}"
        )
        yield visible(line.rstrip())


def _part_name(part: Part) -> str:
    name = NO_OPS.get(part.name, part.name.replace("_", " "))
    if not part.axis:
        return name
    return f"{name} {'(axis not known)' if part.axis == 'unclassified' else part.axis}"


def _latency_line(label: str, found: Latency) -> str:
    if found.value_s is None:
        return f"{label}: not known, because: {found.why}"
    return f"{label}: {duration(found.value_s * 1e12)}, median of {plural(found.n, 'request')}"
