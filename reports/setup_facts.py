"""A run's setup as labelled text: recorded facts, and `not known` for a line without any."""

from __future__ import annotations

import json

from xlahouse.capture.commands import located
from xlahouse.reports.charts.facts import PageFacts, Row
from xlahouse.reports.charts.units import NOT_KNOWN, plural, show_ps

IN_MANIFEST = ("Model", "Size", "Element type", "Parallelism", "Batch", "Tokens", "Framework")


def evidence(row: Row) -> str:
    """`measured`, `compiled` or `predicted`: what the run's numbers come from."""
    return row["source"] if row["source"] in ("compiled", "predicted") else "measured"


def setup_rows(facts: PageFacts) -> list[tuple[str, str]]:
    """The setup as (label, text), in the order of the page."""
    row = facts.row
    return [
        ("Model", _join(row["model"], _known(row["model_family"], "{} family"))),
        ("Size", _join(_count(row["layers"], "layer"), _known(row["hidden_size"], "width {:,}"))),
        ("Element type", _join(row["dtype"])),
        ("Parallelism", _join(row["parallelism"])),
        ("Mesh, major to minor", _join(facts.mesh or row["mesh_problem"])),
        ("Devices", _join(row["device_kind"], _devices(row))),
        ("Batch", _join(_count(row["batch_size"], "sequence"), _microbatches(row))),
        ("Tokens", tokens_text(row)),
        ("Framework", _join(row["framework"], *_versions(row["framework_versions"]))),
        ("Captured", _join(row["captured_text"])),
        ("Trace", _join(row["source"], _known_ps(row["duration_ps"]), row["status"])),
        ("Run id", facts.run_id),
        *_prediction(facts),
    ]


def known_setup(facts: PageFacts) -> list[tuple[str, str]]:
    """The setup without the facts of a manifest that are not known."""
    return [row for row in setup_rows(facts) if row[0] not in IN_MANIFEST or row[1] != NOT_KNOWN]


def absent_setup(facts: PageFacts) -> str:
    """The facts of a manifest that are not known: `model, size`."""
    absent = (label for label, text in setup_rows(facts) if text == NOT_KNOWN)
    return ", ".join(label.lower() for label in absent if label in IN_MANIFEST)


def _prediction(facts: PageFacts) -> list[tuple[str, str]]:
    """What a predicted run is a replay of, and what was changed; nothing of a measured run."""
    if not facts.predicted:
        return []
    return [("Predicted from", facts.parent), ("Change", _join(facts.row["change"]))]


def setup_commands(facts: PageFacts) -> dict[str, str]:
    """Label of setup_rows -> the command that makes it known; of meshes the simplest, with one axis."""
    found = {}
    devices = len(facts.row["places"] or ())
    if facts.mesh is None and devices > 1:
        command = f"xlahouse set mesh {facts.run_id} tp={devices}"
        found["Mesh, major to minor"] = located(command, facts.warehouse)
    if facts.row["device_kind"] is None:
        command = f"xlahouse set device-kind {facts.run_id} 'TPU v6e'"
        found["Devices"] = located(command, facts.warehouse)
    return found


def size_text(row: Row) -> str:
    """`batch 4, 64 + 16 tokens`, as far as it is known."""
    batch = _known(row["batch_size"], "batch {:,}")
    if row["prompt_tokens"] is None or row["output_tokens"] is None:
        return _join(batch)
    return _join(batch, f"{row['prompt_tokens']:,} + {row['output_tokens']:,} tokens")


def tokens_text(row: Row) -> str:
    """`64 in the prompt, 16 generated`, as far as it is known."""
    prompt = _known(row["prompt_tokens"], "{:,} in the prompt")
    return _join(prompt, _known(row["output_tokens"], "{:,} generated"))


def devices_text(row: Row) -> str:
    """`4 of 4 devices traced, cpu`."""
    named = plural(row["named_devices"], "device")
    if row["source"] == "compiled":
        return _join(f"compiled for {named}", row["device_kind"])
    return _join(f"{row['traced_devices']:,} of {named} traced", row["device_kind"])


def _devices(row: Row) -> str:
    if row["source"] == "compiled":
        return f"{row['named_devices']:,} named, none ran"
    traced = f"{row['traced_devices']:,} traced, {row['named_devices']:,} named"
    hosts = _count(row["host_count"], "host")
    return f"{traced}, on {hosts}" if hosts else traced


def _microbatches(row: Row) -> str | None:
    count = row["microbatches"]
    return None if count is None else f"{count:,} microbatch" + ("" if count == 1 else "es")


def _versions(raw: str | None) -> list[str]:
    """`torch 2.9.1`, …: the column is a JSON object, or whatever another tool wrote there."""
    try:
        versions = json.loads(raw) if raw else {}
    except ValueError:
        return []
    if not isinstance(versions, dict):
        return []
    return [f"{name} {version}" for name, version in sorted(versions.items())]


def _known(value: object, form: str) -> str | None:
    return None if value is None else form.format(value)


def _known_ps(value: float | None) -> str | None:
    return None if value is None else show_ps(value)


def _count(value: int | None, noun: str) -> str | None:
    return None if value is None else plural(value, noun)


def _join(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part) or NOT_KNOWN
