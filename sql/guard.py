"""Lets through one statement that only reads, and says which relations it names.

DuckDB's own parser decides, through its JSON form of a statement: only what that form knows as a
SELECT passes, and every node of it is looked at. The database behind a query is locked as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from xlahouse.capture.errors import QueryError
from xlahouse.sql.blame import explain_error

if TYPE_CHECKING:
    import duckdb

READS_ONLY = "a query may only read: SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN"
EXPLAIN = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*explain(?:\s+analyze)?(?:\s*\((?:format|analyze)[^)]*\))?\s+",
    re.IGNORECASE | re.DOTALL,
)
# Table functions that make rows of their arguments or describe the catalogue. All others read
# files, memory addresses or settings, or hide a query in a string.
TABLE_FUNCTIONS = {
    "unnest",
    "range",
    "generate_series",
    "repeat",
    "json_each",
    "json_tree",
    "duckdb_columns",
    "duckdb_functions",
    "duckdb_keywords",
    "duckdb_tables",
    "duckdb_types",
    "duckdb_views",
    "pragma_table_info",
    "pragma_version",
}
REFUSED_FUNCTIONS = {"getenv", "write_log", "nextval", "setval"}
QUERY_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
# How the parser names what SHOW TABLES, SHOW ALL TABLES and SHOW DATABASES read.
SHOW_ALL = {'"tables"', '"databases"', "__show_tables_expanded"}
CATALOGUE_SCHEMAS = {"information_schema", "pg_catalog"}


@dataclass(frozen=True)
class Mention:
    """A relation that a query names, and the byte where, None where the parser lost it."""

    name: str
    offset: int | None


@dataclass(frozen=True)
class Checked:
    """What a query that may run names."""

    mentions: tuple[Mention, ...]
    defined: frozenset[str]  # its own common table expressions
    lists_catalogue: bool  # SHOW TABLES and its like: every relation has to be there
    parameters: frozenset[str] = frozenset()


def check(sql: str) -> Checked:
    """Refuse whatever is not one reading statement.

    Raises:
        QueryError: says which rule was broken, or where the text does not parse.
    """
    if not _is_text(sql):
        raise QueryError("the query is not valid UTF-8; save or type it as UTF-8", ascii(sql))
    parameters = _require_one(sql)
    tree = _tree(sql)
    located = tree is not None
    if tree is None:
        explain = EXPLAIN.match(sql)
        tree = _tree(sql[explain.end() :]) if explain else None
    if tree is None:
        raise QueryError(READS_ONLY, sql)
    return replace(_inspect(tree, sql, located), parameters=parameters)


def _is_text(sql: str) -> bool:
    try:
        sql.encode()
    except UnicodeEncodeError:
        return False
    return True


def inspect_select(sql: str) -> Checked:
    """What a SELECT of our own names: `check` without the searching.

    Raises:
        QueryError: it is not one SELECT.
    """
    tree = _tree(sql)
    if tree is None:
        raise QueryError(READS_ONLY, sql)
    return _inspect(tree, sql, located=False)


def _require_one(sql: str) -> frozenset[str]:
    """Names of the statement's parameters; refuses several statements and other kinds."""
    import duckdb

    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise explain_error(error, sql) from error
    if len(statements) != 1:
        found = "nothing" if not statements else f"{len(statements)} statements"
        raise QueryError(f"a query is one statement; this is {found}", sql)
    if str(statements[0].type).rpartition(".")[2] not in {"SELECT", "EXPLAIN"}:
        raise QueryError(READS_ONLY, sql)
    return frozenset(str(name) for name in statements[0].named_parameters)


@lru_cache(maxsize=1)
def _parser() -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect(":memory:")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection


def _tree(sql: str) -> Any:
    """The statement's nodes; None for whatever is not a SELECT."""
    row = (
        _parser()
        .cursor()
        .execute("select json_serialize_sql(cast($1 as varchar), skip_null := true)", [sql])
        .fetchone()
    )
    answer: dict[str, Any] = json.loads(row[0]) if row else {"error": True}
    if answer["error"] or len(answer["statements"]) != 1:
        return None
    return answer["statements"][0]


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _inspect(tree: Any, sql: str, located: bool) -> Checked:
    mentions: list[Mention] = []
    defined: set[str] = set()
    lists_catalogue = False
    for node in _nodes(tree):
        kind = node.get("type")
        if isinstance(kind, str) and kind.endswith("_NODE") and kind not in QUERY_NODES:
            raise QueryError(READS_ONLY, sql)
        _check_functions(node, sql)
        if "cte_map" in node:
            defined |= {entry["key"].lower() for entry in node["cte_map"].get("map", [])}
        if kind == "BASE_TABLE" or (kind == "SHOW_REF" and node.get("table_name")):
            path = _path(node)
            if path[-1] in SHOW_ALL or set(path[:-1]) & CATALOGUE_SCHEMAS:
                lists_catalogue = True
            else:
                offset = node.get("query_location") if located else None
                known = offset is not None and offset < len(sql.encode())
                mentions.append(Mention(path[-1], offset if known else None))
        elif kind == "TABLE_FUNCTION":
            lists_catalogue = True
    mentions.sort(key=lambda mention: mention.offset or 0)
    return Checked(tuple(mentions), frozenset(defined), lists_catalogue)


def _path(node: dict[str, Any]) -> list[str]:
    """`main.ops` -> [main, ops], in lower case."""
    path = node.get("qualified_name", {}).get("path") or [node.get("table_name", "")]
    return [str(part).lower() for part in path]


def _check_functions(node: dict[str, Any], sql: str) -> None:
    name = str(node.get("function_name", "")).lower()
    if name in REFUSED_FUNCTIONS:
        raise QueryError(f"the function {name} is not allowed in a query", sql)
    if node.get("type") == "TABLE_FUNCTION":
        name = str(node.get("function", {}).get("function_name", "")).lower()
        if name not in TABLE_FUNCTIONS:
            raise QueryError(
                f"the table function {name} is not allowed: a query reads the warehouse and "
                "nothing else; `xlahouse tables` and `xlahouse views` list what there is",
                sql,
            )
