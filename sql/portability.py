"""Finds what in a query may mean something else on Spark than on DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xlahouse.sql.portable import PORTABLE, REASONS, SAID

# Their results are DOUBLEs: DuckDB rounds one where it becomes an integer, Spark truncates.
GIVE_DOUBLES = ("Avg", "Div", "Exp", "Ln", "Sqrt")


def portability(tree: Any, besides: Mapping[str, frozenset[str]] | None = None) -> Iterator[str]:
    """Whatever in a syntax tree is not on the list of sql/portable.py, or is and loses a digit.

    besides: parts that may be there as well.
    """
    from sqlglot import exp

    found = [fault for node in tree.walk() if (fault := _off_the_list(node, besides or {}))]
    yield from dict.fromkeys(found)
    for literal in tree.find_all(exp.Literal):
        if not literal.is_string and "." in literal.name and "e" not in literal.name.lower():
            yield f"{literal.name}: a DECIMAL, whose digits differ on Spark; write {literal.name}e0"
    for cast in tree.find_all(exp.Cast):
        if cast.to.is_type("bigint") and _gives_double(cast.this.unnest()):
            yield f"{cast.sql()}: Spark truncates where DuckDB rounds; round() first"


def _off_the_list(node: Any, besides: Mapping[str, frozenset[str]]) -> str | None:
    name = type(node).__name__
    called = node.name.lower() if name in ("Anonymous", "AnonymousAggFunc") else name
    parts = {key.rstrip("_") for key, value in node.args.items() if value}
    known = PORTABLE.keys() | besides.keys()
    odd = parts - PORTABLE.get(name, frozenset()) - besides.get(name, frozenset())
    said = [
        str(getattr(value, "name", value)).upper()
        for key, value in node.args.items()
        if value and (name, key) in SAID
        if str(getattr(value, "name", value)).upper() not in SAID[name, key]
    ]
    if name in known and not odd and not said:
        return None
    what = " ".join([called, *(sorted(odd) if name in known else ()), *said])
    reason = REASONS.get(name, "no test shows that Spark means the same")
    return f"{what}: {reason} (sql/portable.py lists what carries over)"


def _gives_double(node: Any) -> bool:
    """Whether a value may have a fraction, as far as the text tells."""
    if type(node).__name__ in GIVE_DOUBLES:
        return True
    inside = type(node).__name__ in ("Add", "Sub", "Mul", "Neg", "Paren", "Coalesce", "Sum")
    return inside and any(_gives_double(child) for child in node.iter_expressions())
