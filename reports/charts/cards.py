"""A headline number of a run, as text for a card."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class HeadlineCard:
    """One headline number of a run, as text."""

    metric: str  # column of run_summary, or of the view that has it
    label: str
    text: str  # the number with its unit; empty where it is not known
    exact: str  # all its digits
    spread: str
    coverage: str  # n, and what it counts
    why: str  # why the number is not known; empty where it is


def known_cards(cards: Iterable[HeadlineCard]) -> list[HeadlineCard]:
    """The cards that have a number."""
    return [card for card in cards if not card.why]


def unknown_by_reason(cards: Iterable[HeadlineCard]) -> list[str]:
    """A sentence a reason with all that it leaves unknown: `Not known: TTFT, TPOT: no markers of …`."""
    labels: dict[str, list[str]] = {}
    for card in cards:
        if card.why:
            labels.setdefault(card.why, []).append(card.label)
    return [f"Not known: {', '.join(names)}: {why}." for why, names in labels.items()]
