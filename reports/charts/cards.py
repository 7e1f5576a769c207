"""A headline number of a run, as text for a card."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class HeadlineCard:
    """One headline number of a run, as text."""

    metric: str  # column of run_summary, or of the view that has it
    label: str  # above the number
    text: str  # the number with its unit; empty where it is not known
    exact: str  # all its digits
    spread: str  # quartiles, or the range over repeats; empty without either
    coverage: str  # n, and what it counts
    why: str  # why the number is not known; empty where it is


def known_cards(cards: Iterable[HeadlineCard]) -> list[HeadlineCard]:
    """The cards that have a number."""
    return [card for card in cards if not card.why]


def unknown_by_reason(cards: Iterable[HeadlineCard]) -> list[str]:
    """A sentence a reason with all that it leaves unknown: `Not known: TTFT, TPOT: no markers of …`."""
    whys = ((card.label, card.why) for card in cards if card.why)
    return [f"Not known: {text}." for text in by_reason(whys)]


def by_reason(whys: Iterable[tuple[str, str]]) -> list[str]:
    """`TTFT, TPOT: no markers of …`: a text a reason. whys: label, and why it is not known."""
    labels: dict[str, list[str]] = {}
    for label, why in whys:
        labels.setdefault(why, []).append(label)
    return [f"{', '.join(named)}: {why}" for why, named in labels.items()]
