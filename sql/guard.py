"""Passes one statement that only reads: its tree, and the relations that it names.

DuckDB's own parser decides, through its JSON form of a statement: only a SELECT of that form passes,
and every node of it is checked. Names have to be tables or views of the warehouse,
table functions have to be on a list, and functions that describe the machine are refused.

The second wall is the database (sql/database.py): in memory, no external access except to the
warehouse's folders, no extensions, no Python variables, configuration locked. Alone it is not enough:
COPY into an allowed folder passes it, and EXPLAIN ANALYZE of a write runs the write.

Neither limits work: sql/limits.py does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from xlahouse.capture.errors import QueryError
from xlahouse.sql.blame import TOO_DEEP, explain_error, place
from xlahouse.sql.syntax import Json, Node, child, children, kind, text, texts

if TYPE_CHECKING:
    import duckdb

READS_ONLY = "a query may only read: SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN"
_EXPLAIN = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*explain(?P<analyze>\s+analyze)?"
_OPTION = r"\s*(?:analyze|format\s+'?(?:text|json)'?)\s*"
EXPLAIN = re.compile(
    rf"{_EXPLAIN}(?P<options>\s*\({_OPTION}(?:,{_OPTION})*\))?\s+", re.IGNORECASE | re.DOTALL
)
EXPLAIN_OTHERWISE = re.compile(
    rf"{_EXPLAIN}\s*\(\s*(?:analyze|format)\b", re.IGNORECASE | re.DOTALL
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
# They describe this machine, change something, wait, or hide a query in a string. Variables name the
# files that tables are read from.
REFUSED_FUNCTIONS = {
    "current_setting",
    "getenv",
    "getvariable",
    "json_serialize_plan",
    "nextval",
    "pg_postmaster_start_time",
    "pg_sleep",
    "setval",
    "sleep_ms",
    "write_log",
}
# A name that DuckDB could take for a file, were it not for the lock.
FILE_LIKE = re.compile(r"[/\\*?]|\.\w+$")
QUERY_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
# The parser's names for the relations of SHOW TABLES, SHOW ALL TABLES and SHOW DATABASES.
SHOW_ALL = {'"tables"', '"databases"', "__show_tables_expanded"}
CATALOGUE_SCHEMAS = {"information_schema", "pg_catalog"}
# The other relations of pg_catalog describe the server, as pg_settings does.
PG_CATALOGUE = {
    *("pg_attribute", "pg_class", "pg_constraint", "pg_description", "pg_enum", "pg_index"),
    *("pg_namespace", "pg_proc", "pg_tables", "pg_type", "pg_views"),
}


@dataclass(frozen=True)
class Mention:
    """A relation that a query names."""

    name: str  # without its schema
    offset: int | None  # of its first byte in the text; None where the parser lost it


@dataclass(frozen=True)
class Relations:
    """The relations that a query reads."""

    mentions: tuple[Mention, ...]  # without the query's common table expressions
    lists_catalogue: bool  # SHOW TABLES and its like: every relation has to be there

    @property
    def names(self) -> frozenset[str]:
        """Their names."""
        return frozenset(mention.name for mention in self.mentions)


class QueryPlan(Enum):
    """How an EXPLAIN shows its plan; the statement itself asks DuckDB for JSON."""

    TEXT, JSON = range(2)


@dataclass(frozen=True)
class Checked:
    """A query that may run, parsed: no later room parses its text again."""

    statement: duckdb.Statement  # as DuckDB runs it
    tree: Node  # of the statement; of the one that an EXPLAIN explains
    # the form of the plan that an EXPLAIN asks for; None: it is no EXPLAIN
    explains: QueryPlan | None
    relations: Relations  # that it names
    parameters: frozenset[str]  # names of its parameters


def check(sql: str, parser: duckdb.DuckDBPyConnection | None = None) -> Checked:
    """Parse one reading statement, and refuse everything else.

    parser: a connection to parse with; nothing is run on it. Without one, a database is started.

    Raises:
        QueryError: states the broken rule, or where the text does not parse.
    """
    if not _is_text(sql):
        raise QueryError("the query is not valid UTF-8; save or type it as UTF-8", ascii(sql))
    parser = parser or _parser()
    statement = _require_one(sql, parser)
    tree, plan = _tree(sql, parser), None
    if tree is None and (explain := EXPLAIN.match(sql)):
        if not explain["options"] and EXPLAIN_OTHERWISE.match(sql):
            raise QueryError("an EXPLAIN takes the options ANALYZE, and FORMAT text or json", sql)
        query = sql[explain.end() :]
        tree = _tree(query, parser)
        options = (explain["options"] or "").lower()
        plan = QueryPlan.JSON if "json" in options else QueryPlan.TEXT
        analyze = "analyze, " if explain["analyze"] or "analyze" in options else ""
        statement = _require_one(f"explain ({analyze}format json) {query}", parser)
    if tree is None:
        raise QueryError(READS_ONLY, sql)
    relations = _inspect(tree, sql, located=plan is None)
    parameters = frozenset(str(name) for name in statement.named_parameters)
    return Checked(statement, tree, plan, relations, parameters)


def _is_text(sql: str) -> bool:
    try:
        sql.encode()
    except UnicodeEncodeError:
        return False
    return True


def names_in_select(sql: str) -> frozenset[str]:
    """The relations that a SELECT of our own names.

    Raises:
        QueryError: it is not one SELECT.
    """
    tree = _tree(sql, _parser())
    if tree is None:
        raise QueryError(READS_ONLY, sql)
    return _inspect(tree, sql, located=False).names


def _require_one(sql: str, parser: duckdb.DuckDBPyConnection) -> duckdb.Statement:
    """The statement; refuses several statements and other kinds."""
    import duckdb

    try:
        statements = parser.extract_statements(sql)
    except duckdb.Error as error:
        raise explain_error(error, sql) from error
    if len(statements) != 1:
        found = "nothing" if not statements else f"{len(statements)} statements"
        raise QueryError(f"a query is one statement, such as a SELECT; this is {found}", sql)
    try:
        form = str(statements[0].type).rpartition(".")[2]
    except ValueError:  # a kind that DuckDB's Python package has no name for; none of them reads
        form = ""
    if form == "MULTI":
        raise QueryError(
            "a PIVOT has to list its values: PIVOT t ON a IN ('x', 'y') USING sum(b); "
            "without them it is more than one statement",
            sql,
        )
    if form not in {"SELECT", "EXPLAIN"}:
        raise QueryError(READS_ONLY, sql)
    return statements[0]


@lru_cache(maxsize=1)
def _parser() -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect(":memory:")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection


def _tree(sql: str, parser: duckdb.DuckDBPyConnection) -> Node | None:
    """The statement's nodes; None for every statement that is not a SELECT."""
    row = parser.execute(
        "select json_serialize_sql(cast($1 as varchar), skip_null := true)", [sql]
    ).fetchone()
    try:
        answer: Node = json.loads(row[0]) if row else {"error": True}
    except RecursionError:
        raise QueryError(TOO_DEEP, sql) from None
    statements = children(answer, "statements")
    return None if answer["error"] or len(statements) != 1 else statements[0]


def _nodes(tree: Node) -> Iterator[tuple[Node, frozenset[str]]]:
    """Every node, with the names of the common table expressions that can be seen from it."""
    waiting: list[tuple[Json, frozenset[str]]] = [(tree, frozenset())]
    while waiting:
        node, scope = waiting.pop()
        if isinstance(node, list):
            waiting += [(item, scope) for item in node]
        elif isinstance(node, dict):
            yield node, scope
            for entry in children(child(node, "cte_map"), "map"):
                # Only later expressions see a name, and the expression itself if it is recursive.
                wider = scope | {text(entry, "key").lower()}
                query = child(child(entry, "value"), "query_node")
                itself = kind(query) == "RECURSIVE_CTE_NODE"
                waiting.append((entry["value"], wider if itself else scope))
                scope = wider
            waiting += [(value, scope) for name, value in node.items() if name != "cte_map"]


def _inspect(tree: Node, sql: str, located: bool) -> Relations:
    mentions: list[Mention] = []
    lists_catalogue = False
    for node, scope in _nodes(tree):
        if kind(node).endswith("_NODE") and kind(node) not in QUERY_NODES:
            raise QueryError(READS_ONLY, sql)
        _check_functions(node, sql)
        if kind(node) == "BASE_TABLE" or (kind(node) == "SHOW_REF" and node.get("table_name")):
            path = _path(node)
            if path[-1] in SHOW_ALL or set(path[:-1]) & CATALOGUE_SCHEMAS:
                if "pg_catalog" in path[:-1] and path[-1] not in PG_CATALOGUE:
                    raise QueryError(f"{path[-1]} is not allowed: it describes this machine", sql)
                lists_catalogue = True
                continue
            mention = Mention(path[-1], _offset(node, sql) if located else None)
            _check_name(mention, sql)
            if len(path) > 1 or mention.name not in scope:
                mentions.append(mention)
        elif kind(node) == "TABLE_FUNCTION" and _called(node).startswith(("duckdb_", "pragma_")):
            lists_catalogue = True
    mentions.sort(key=lambda mention: mention.offset or 0)
    return Relations(tuple(mentions), lists_catalogue)


def _offset(node: Node, sql: str) -> int | None:
    """The byte where a node begins; None where the parser lost it, as a number past the end says."""
    offset = node.get("query_location")
    return offset if isinstance(offset, int) and offset < len(sql.encode()) else None


def _check_name(mention: Mention, sql: str) -> None:
    if FILE_LIKE.search(mention.name):
        line, column = place(sql, mention.offset)
        raise QueryError(
            f"no table or view {mention.name}: a query reads the warehouse and no other file; "
            "`xlahouse tables` and `xlahouse views` list its relations",
            sql,
            line,
            column,
        )


def _path(node: Node) -> list[str]:
    """`main.ops` -> [main, ops], in lower case."""
    return texts(child(node, "qualified_name"), "path") or [text(node, "table_name").lower()]


def _called(node: Node) -> str:
    """The name of a table function."""
    return text(child(node, "function"), "function_name").lower()


def _check_functions(node: Node, sql: str) -> None:
    name = text(node, "function_name").lower()
    if name in REFUSED_FUNCTIONS:
        raise QueryError(
            f"the function {name} is not allowed: a query reads the warehouse and nothing else; "
            "leave it out",
            sql,
        )
    if kind(node) == "TABLE_FUNCTION":
        name = _called(node)
        if name not in TABLE_FUNCTIONS:
            raise QueryError(
                f"the table function {name} is not allowed: a query reads the warehouse and "
                "nothing else; `xlahouse tables` and `xlahouse views` list its relations",
                sql,
            )
