"""Planted faults that no case catches: those that change no answer, and those that wait for a case."""

from __future__ import annotations

from pathlib import Path

import yaml


def _read(name: str) -> dict[str, set[str]]:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    views: dict[str, dict[str, list[str]]] = yaml.safe_load(text)
    return {view: {f for faults in why.values() for f in faults} for view, why in views.items()}


# View -> its faults that change no answer, from harmless.yaml, which says why.
HARMLESS = _read("harmless.yaml")
# View -> its faults that change answers, and that no case shows yet. New faults must not escape.
UNCAUGHT = _read("uncaught.yaml")
EXCUSED = {
    view: HARMLESS.get(view, set()) | UNCAUGHT.get(view, set()) for view in HARMLESS | UNCAUGHT
}
