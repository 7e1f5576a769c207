"""Finds the workload cards beside traces: a row of a collection is a folder with a card."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import fsspec

from xlahouse.capture.card_file import looks_like_card
from xlahouse.ingest.events.files import open_on

_CARD_ENDINGS = (".yaml", ".yml")
_MOST_BYTES = 1 << 20  # a card is a page of text


@dataclass(frozen=True)
class CardFolder:
    """A folder with a workload card."""

    name: str  # of the folder
    path: str | None  # of the card; None where there are several
    problem: str = ""  # why no card is used


def card_folders(fs: fsspec.AbstractFileSystem, files: Iterable[str]) -> dict[str, CardFolder]:
    """Folder -> its card, for each folder whose files include one."""
    found: dict[str, list[str]] = {}
    for file in files:
        if file.endswith(_CARD_ENDINGS) and _is_card(fs, file):
            found.setdefault(file.rpartition("/")[0], []).append(file)
    return {folder: _chosen(folder, cards) for folder, cards in found.items()}


def _is_card(fs: fsspec.AbstractFileSystem, file: str) -> bool:
    try:
        with open_on(fs, file) as opened:
            return looks_like_card(opened.read(_MOST_BYTES).decode("utf-8", "replace"))
    except OSError:
        return False


def _chosen(folder: str, cards: list[str]) -> CardFolder:
    """The only card, or the one with the folder's name."""
    name = folder.rpartition("/")[2]
    named = [card for card in cards if card.rpartition("/")[2].rpartition(".")[0] == name]
    if len(cards) == 1 or len(named) == 1:
        return CardFolder(name, (named or cards)[0])
    listed = ", ".join(sorted(card.rpartition("/")[2] for card in cards))
    problem = f"several workload cards lie beside the trace ({listed})"
    return CardFolder(name, None, problem)


def folder_of(path: str, folders: dict[str, CardFolder]) -> str | None:
    """The nearest folder above a file that has a card."""
    parts = path.split("/")
    for depth in range(len(parts) - 1, 0, -1):
        folder = "/".join(parts[:depth])
        if folder in folders:
            return folder
    return None
