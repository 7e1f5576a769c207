"""Says why a query finds no run: it compares run_id with a name, or names a run that is not there."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xlahouse.sql.narrowing import RunFilter
from xlahouse.sql.nearest import suggest

JOIN = "join runs using (run_id) where name = '{}', or --run {}"


def hints_of(
    filters: Collection[RunFilter], given: Mapping[str, object], names: Mapping[str, str | None]
) -> list[str]:
    """A line for each value that a query's WHERE asks for and no run has.

    Args:
        filters: of the query.
        given: its parameters.
        names: run_id -> name, of all runs.
    """
    known = {name for name in names.values() if name}
    found = []
    for one in filters:
        values = {*one.texts, *(str(given[name]) for name in one.parameters if name in given)}
        unknown = sorted(values - (known if one.by_name else set(names)))
        found += [_hint(value, one.by_name, names, known) for value in unknown]
    return found


def _hint(value: str, by_name: bool, names: Mapping[str, str | None], known: set[str]) -> str:
    if by_name and value in names:
        return f"no run has the name {value}, which is a run_id: where run_id = '{value}'"
    if not by_name and value in known:
        return f"no run has the run_id {value}, which is a name: {JOIN.format(value, value)}"
    near = suggest(value, [*names, *known]) or "; `xlahouse runs` lists them"
    what = "name" if by_name else "run_id"
    return f"no run has the {what} {value}{near}"
