"""What the name of an op alone states: its category, the kind of its transfer, its role in a pair.

Where a trace has neither HLO nor instruction text, that is all there is, and a finding reports it.
"""

from __future__ import annotations

import polars as pl

from xlahouse.ingest.hlo.kernels import COLLECTIVE_NAME
from xlahouse.ingest.hlo.scopes import KERNELS
from xlahouse.ingest.hlo.transfer import COLLECTIVE_KINDS

# JAX names an instruction after its primitive.
_PRIMITIVES = {
    "psum": "all-reduce",
    "psum_invariant": "all-reduce",
    "pmax": "all-reduce",
    "pmin": "all-reduce",
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "all_gather_invariant": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "psum_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
    "ragged_all_to_all": "ragged-all-to-all",
    "ppermute": "collective-permute",
    "collective_permute": "collective-permute",
    "pbroadcast": "collective-broadcast",
    "collective_broadcast": "collective-broadcast",
}
_KINDS = dict.fromkeys(COLLECTIVE_KINDS, "") | _PRIMITIVES
_NUMBER = r"(?:\.\d+)*"
_ROLE = r"-(start|update|done)"
_KIND = rf"^({'|'.join(sorted(_KINDS, key=len, reverse=True))})(?:{_ROLE})?{_NUMBER}$"
_AT_END = rf"{_ROLE}({_NUMBER})$"
_ASYNC = rf"^async(?:-collective)?{_ROLE}\b"
_CATEGORIES = {
    "control": r"^(?:while|call|conditional)\b",
    "collective": rf"^(?:{'|'.join(COLLECTIVE_KINDS)})\b",
    "copy": r"^(?:copy|slice|dynamic-slice|dynamic-update-slice)-(?:start|done)\b",
    "host_transfer": r"^(?:send|recv|infeed|outfeed)\b",
}


def component_of(name: pl.Expr) -> pl.Expr:
    """The component whose kernel has that name; NULL where the name is of no such kernel."""
    return pl.coalesce(
        *(pl.when(name.str.contains(pattern)).then(pl.lit(part)) for part, pattern in KERNELS)
    )


def category_of(stem: pl.Expr) -> pl.Expr:
    """The category that an opcode or a name states; NULL where it states none."""
    return pl.coalesce(
        *(
            pl.when(stem.str.contains(text)).then(pl.lit(name))
            for name, text in _CATEGORIES.items()
        ),
        # What an async op does is not known; compute that runs on the core is never async.
        pl.when(stem.str.contains(_ASYNC) | stem.str.contains(_KIND)).then(pl.lit("collective")),
    )


def kind_of(name: pl.Expr) -> pl.Expr:
    """`psum.7`, `all-gather-start` -> the kind of collective."""
    stem = name.str.extract(_KIND)
    return stem.replace(_PRIMITIVES)


def role_of(name: pl.Expr) -> pl.Expr:
    """`all-gather-done.3` -> done; NULL for an op that is not a part of a pair."""
    return name.str.extract(_AT_END)


def start_of(name: pl.Expr) -> pl.Expr:
    """`all-gather-done.3` -> `all-gather-start.3`: the two have one number."""
    return name.str.replace(_AT_END, "-start${2}")


def may_communicate(name: pl.Expr, traced: pl.Expr) -> pl.Expr:
    """Whether an op is a custom call named after a collective, or a send or recv, maybe between slices."""
    kernel = (traced == "custom-call").fill_null(False) & name.str.contains(COLLECTIVE_NAME)
    return kernel | name.str.contains(rf"^(?:send|recv)(?:-done)?{_NUMBER}$")
