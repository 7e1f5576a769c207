"""Answers of views that sum up transfers by their size: how long they take, how fast they are."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean, median

from tests.synth.answers.time import ran
from tests.synth.answers.traffic import percentile, together
from tests.synth.describe import Run
from tests.synth.traffic import Row, collective_bandwidth, middle
from tests.synth.transfers import moved

PERCENTS = (50, 95, 99)


def size_bucket(size: int) -> int:
    """The largest power of two that is not above it."""
    return 1 << (size.bit_length() - 1) if size else 0


def collective_latency_summary(run: Run) -> list[Row]:
    """Rows of collective_latency_summary_v2."""
    steps = _step_lengths(run)
    names = ("device_id", "phase", "axis", "kind", "size_bucket_bytes")
    found = together(
        moved(run), lambda m: (m.device, m.phase, m.axis, m.kind, size_bucket(m.payload))
    )
    rows = []
    for key, ours in found.items():
        times, lengths = [m.end - m.start for m in ours], steps.get(key[:2])
        row: Row = {**dict(zip(names, key, strict=True)), "count": len(ours)}
        row["step_count"] = len(lengths) if lengths else None
        row["collectives_per_step"] = len(ours) / len(lengths) if lengths else None
        row["collectives_per_s"] = len(ours) * 1e12 / sum(lengths) if lengths else None
        row["p50_ps"] = middle(times)
        rows.append(row | {f"p{p}_ps": percentile(times, p) for p in PERCENTS[1:]})
    return rows


def _step_lengths(run: Run) -> dict[tuple, list[int]]:
    """(device, phase) -> how long each of its steps lasts, first launch to last."""
    spans: dict[tuple, list[int]] = defaultdict(list)
    for each in ran(run):
        if each.step is not None:
            device = run.devices[each.position]
            spans[device, each.label, each.request, each.step] += each.span(run)
    lengths: dict[tuple, list[int]] = defaultdict(list)
    for (device, phase, _, _), times in spans.items():
        lengths[device, phase].append(max(times) - min(times))
    return lengths


def bandwidth_summary(run: Run) -> list[Row]:
    """Rows of bandwidth_summary_v3."""
    names = ("axis", "kind", "size_bucket_bytes")
    found = together(
        collective_bandwidth(run),
        lambda r: (r["axis"], r["kind"], size_bucket(r["payload_bytes"])),
    )
    rows = []
    for key, ours in found.items():
        bound = [r for r in ours if r["is_bound"]]
        known = [r for r in ours if not r["is_bound"] and (r["busbw_bytes_per_s"] or 0) > 0]
        speeds = [r["busbw_bytes_per_s"] for r in known]
        row = {**dict(zip(names, key, strict=True)), "count": len(known)}
        row |= {"bound_count": len(bound), "unknown_count": len(ours) - len(bound) - len(known)}
        row |= {"instances": len(ours)}
        row["unseen_count"] = sum(r["participants_seen"] < r["group_size"] for r in ours)
        row["mean_busbw_bytes_per_s"] = fmean(speeds) if speeds else None
        row["p50_busbw_bytes_per_s"] = median(speeds) if speeds else None
        row["p95_busbw_bytes_per_s"] = percentile(speeds, 95) if speeds else None
        rows.append(row | {"max_busbw_bytes_per_s": max(speeds, default=None)})
    return rows


def sizes(run: Run) -> dict[str, list[Row]]:
    """All of these, by name."""
    return {
        "collective_latency_summary": collective_latency_summary(run),
        "bandwidth_summary": bandwidth_summary(run),
    }
