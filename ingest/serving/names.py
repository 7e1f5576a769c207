"""How servers name their steps, the requests of a step, and transfers between servers.

vLLM's tpu-inference opens `execute_model: 3 reqs, 514 toks` around each step, with the ids of the
requests as stats `request_id1`, `request_id2`, … (tpu_inference/runner: tpu_runner.py, utils.py), and
`KV_Cache_Pull` or `KV_Cache_Await_Pull` around transfers of keys and values between prefilling and
decoding servers (distributed/tpu_connector.py). vLLM on GPUs names a step by its requests and tokens of
prompts, then of generation. A capture of this package states beside each id the request's tokens of the
step (`request_tokens1`) and how many of them are of its prompt (`prompt_tokens1`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import polars as pl

from xlahouse.ingest.events.frames import SERVER_STEP

STEP = r"^execute_model: ([0-9]{1,9}) reqs, ([0-9]{1,9}) toks$"
CONTEXT_STEP = (
    r"^execute_context_([0-9]{1,9})\(([0-9]{1,9})\)_generation_([0-9]{1,9})\(([0-9]{1,9})\)$"
)
STATED = re.compile(r"^(request_id|request_tokens|prompt_tokens)(\d{1,6})$")
PULL, AWAIT_PULL = "KV_Cache_Pull", "KV_Cache_Await_Pull"
IS_STEP = pl.col("name").str.contains(STEP) | pl.col("name").str.contains(CONTEXT_STEP)
IS_TRANSFER = pl.col("name").is_in([PULL, AWAIT_PULL])
LISTS = {"request_id": "ids", "request_tokens": "id_tokens", "prompt_tokens": "id_prompt_tokens"}


def with_stated(marks: pl.DataFrame) -> pl.DataFrame:
    """Markers of a server's steps with what their names state: `phase` server, and requests, tokens, kind.

    Args:
        marks: with `name`; rows of other names are passed with NULLs.
    """
    name = pl.col("name")
    plain = [name.str.extract(STEP, place).cast(pl.Int64) for place in (1, 2)]
    parts = [name.str.extract(CONTEXT_STEP, place).cast(pl.Int64) for place in (1, 2, 3, 4)]
    kind = (
        pl.when(parts[2] == 0)
        .then(pl.lit("prefill"))
        .when(parts[0] == 0)
        .then(pl.lit("decode"))
        .when(parts[0].is_not_null())
        .then(pl.lit("mixed"))
    )
    return marks.with_columns(
        requests=pl.coalesce(plain[0], parts[0] + parts[2]),
        tokens=pl.coalesce(plain[1], parts[1] + parts[3]),
        kind=kind,
        phase=pl.when(IS_STEP).then(pl.lit(SERVER_STEP)).otherwise("phase"),
    )


def places(names: Iterable[str]) -> dict[str, list[tuple[int, str]]]:
    """Of each list in LISTS the stats that are its members: (place, stat), by place."""
    found: dict[str, list[tuple[int, str]]] = {column: [] for column in LISTS.values()}
    for name in names:
        match = STATED.match(name)
        if match is not None:
            found[LISTS[match[1]]].append((int(match[2]), name))
    return {column: sorted(members) for column, members in found.items()}


def stated_lists(told: Mapping[str, object]) -> dict[str, list[str] | list[int | None]]:
    """The lists of a step from an event's arguments; ids as texts, the numbers of an id at its place.

    Args:
        told: arguments by name.
    """
    members = places(told)
    order = [place for place, _ in members["ids"]]
    lists: dict[str, list[str] | list[int | None]] = {
        "ids": [str(told[name]) for _, name in members["ids"]]
    }
    for column in ("id_tokens", "id_prompt_tokens"):
        by_place = {place: _number(told[name]) for place, name in members[column]}
        lists[column] = [by_place.get(place) for place in order]
    return lists


def _number(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 12 else None
