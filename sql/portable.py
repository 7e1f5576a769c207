"""The SQL that means the same on DuckDB and, through sqlglot, on Spark; views use nothing else.

`tests/spark/constructs.yaml` shows each entry on both engines: an entry without a case fails there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

# Integers of `//`, row_number, array_length and array_position differ in width, and sums of BIGINT
# too: a view casts what it returns to bigint.
#
# Nodes that a syntax tree may have: sqlglot's name of a node -> parts that may be present.
PORTABLE: dict[str, frozenset[str]] = {
    name: frozenset(parts.split())
    for name, parts in {
        # Queries
        "Select": "distinct expressions from group having joins where with",
        "With": "expressions",
        "CTE": "alias this",
        "From": "this",
        "Join": "kind on side this",
        "Where": "this",
        "Exists": "this",
        "Group": "expressions",
        "Having": "this",
        "Union": "distinct expression this with",
        "Values": "alias expressions",
        "Distinct": "expressions",
        # Names
        "Alias": "alias this",
        "Column": "table this",
        "Dot": "expression this",
        "Identifier": "this",
        "Star": "",
        "Table": "alias this",
        "TableAlias": "columns this",
        # Values
        "Boolean": "this",
        "Literal": "is_string this",
        "Null": "",
        "Bracket": "expressions this",
        "Paren": "this",
        "Tuple": "expressions",
        "Cast": "this to",
        "DataType": "this",
        # Arithmetic: integers divide with `//`, and `/` gives a DOUBLE
        "Abs": "this",
        "Add": "expression this",
        "Div": "expression this",
        "Exp": "this",
        "IntDiv": "expression this",
        "Ln": "this",
        "Mod": "expression this",
        "Mul": "expression this",
        "Neg": "this",
        "Pow": "expression this",
        "Round": "this",
        "Sqrt": "this",
        "Sub": "expression this",
        # Conditions and NULL
        "And": "expression this",
        "Between": "high low this",
        "Case": "default ifs",
        "Coalesce": "expressions this",
        "EQ": "expression this",
        "GT": "expression this",
        "GTE": "expression this",
        "Greatest": "expressions ignore_nulls this",
        "If": "this true",
        "In": "expressions this",
        "Is": "expression this",
        "LT": "expression this",
        "Like": "expression this",
        "LTE": "expression this",
        "Least": "expressions ignore_nulls this",
        "NEQ": "expression this",
        "Not": "this",
        "NullSafeEQ": "expression this",
        "NullSafeNEQ": "expression this",
        "Nullif": "expression this",
        "Or": "expression this",
        # Text and lists
        "ArrayPosition": "expression this",
        "ArraySize": "this",
        "Concat": "coalesce expressions safe",
        "ConcatWs": "coalesce expressions safe",
        "Explode": "this",
        "GenerateSeries": "end is_end_exclusive start",
        "Lower": "this",
        "RegexpExtract": "expression group null_if_pos_overflow this",
        "Replace": "expression replacement this",
        "Upper": "this",
        # Aggregates and windows
        "Avg": "this",
        "Count": "big_int this",
        "GroupConcat": "separator this",
        "Lag": "this",
        "Lead": "this",
        "LogicalAnd": "this",
        "LogicalOr": "this",
        "Max": "this",
        "Min": "this",
        "Order": "expressions this",
        "Ordered": "desc nulls_first this",
        "RowNumber": "",
        "Sum": "this",
        "Window": "order over partition_by spec this",
        "WindowSpec": "end end_side kind start start_side",
    }.items()
}

# Nodes that a query may have besides: its rows have an order, and queries nest.
QUERIES: dict[str, frozenset[str]] = {
    name: frozenset(parts.split())
    for name, parts in {
        "Select": "limit offset order",
        "Union": "limit offset order",
        "Limit": "expression",
        "Offset": "expression",
        "Join": "using",
        "Subquery": "alias this",
        "Group": "all",
        "Var": "this",
    }.items()
}

# Parts whose text matters: (node, part) -> allowed texts.
SAID: dict[tuple[str, str], frozenset[str]] = {
    ("Var", "this"): frozenset({"ALL"}),
    ("Join", "side"): frozenset({"LEFT"}),
    ("Join", "kind"): frozenset({"INNER", "CROSS"}),
    ("WindowSpec", "kind"): frozenset({"ROWS"}),
    ("DataType", "this"): frozenset({"BIGINT", "DOUBLE", "TEXT", "VARCHAR"}),
}

# Why a construct is not on the list, or what to write in its place; found by experiment.
REASONS: dict[str, str] = {
    "Qualify": "leaks a column on Spark; filter in an outer SELECT",
    "WithinGroup": "becomes approximate on Spark; take the value of row ceil(p n)",
    "PercentileCont": "becomes approximate on Spark; take the value of row ceil(p n)",
    "PercentileDisc": "becomes approximate on Spark; take the value of row ceil(p n)",
    "Quantile": "takes the value of row ceil(p n) only by a row number; write that",
    "Median": "take the value of row ceil(n / 2)",
    "Length": "len fails on lists, which the tree does not distinguish from texts; use array_length",
    "Pivot": "PIVOT fails; aggregate CASEs",
    "WithOrdinality": "counts from 0 on Spark",
    "Unnest": "ordinals differ on Spark; write unnest(range(n)) in a SELECT list",
    "Explode": "starts, ends and steps differ on Spark; write unnest(range(n)) in a SELECT list",
    "GenerateSeries": "starts, ends and steps differ on Spark; write unnest(range(n))",
    "Order": "an order inside an aggregate is lost on Spark, except in string_agg",
    "GroupConcat": "has no order; write string_agg(x, '+' order by y)",
    "Bracket": "counts from 0 on Spark unless its type is known; write x[cast(n as bigint)]",
    "Floor": "gives a bigint on Spark; use round() or //",
    "Ceil": "gives a bigint on Spark; use (a + b - 1) // b",
    "TryCast": "hides a faulty value; correct it at ingest",
    "Filter": "aggregate a CASE",
    "Lambda": "lambdas are not translated",
    "JSONExtract": "JSON arrows are not translated; parse at ingest",
    "JSONExtractScalar": "JSON arrows are not translated; parse at ingest",
    "DPipe": "write concat(…), which skips NULLs on both",
    "Limit": "keeps different rows on each engine",
    "In": "a query's rows give false on Spark where it should give NULL; use EXISTS or a join",
    "First": "has no order; use min or max",
    "AnyValue": "has no order; use min or max",
    "ArgMax": "has no order among equals; use a row number",
    "ArgMin": "has no order among equals; use a row number",
}

# Their results are DOUBLEs: DuckDB rounds one where it becomes an integer, Spark truncates.
GIVE_DOUBLES = ("Avg", "Div", "Exp", "Ln", "Pow", "Sqrt")


def portability(
    tree: exp.Expr, besides: Mapping[str, frozenset[str]] | None = None
) -> Iterator[str]:
    """Faults of a syntax tree: constructs that are not in PORTABLE, or that lose digits on Spark.

    besides: more nodes and parts that are allowed.
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


def _off_the_list(node: exp.Expr, besides: Mapping[str, frozenset[str]]) -> str | None:
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
    if name in known and not odd and not said and _is_safe(node):
        return None
    what = " ".join([called, *(sorted(odd) if name in known else ()), *said])
    reason = REASONS.get(name, "no test shows that Spark means the same")
    return f"{what}: {reason} (sql/portable.py lists the portable constructs)"


def _is_safe(node: exp.Expr) -> bool:
    """Whether a node's arguments are such that Spark means the same by it."""
    from sqlglot import exp

    match node:
        case exp.Explode():
            return isinstance(node.this, exp.GenerateSeries)
        case exp.GenerateSeries():
            starts = node.args["start"]
            is_range = node.args.get("is_end_exclusive") and starts.is_int and starts.name == "0"
            return bool(is_range) and isinstance(node.parent, exp.Explode)
        case exp.GroupConcat():
            return isinstance(node.this, exp.Order)
        case exp.Order():
            return node.args.get("this") is None or isinstance(node.parent, exp.GroupConcat)
        case exp.Bracket():
            return all(each.is_int or _is_shifted(each) for each in node.expressions)
    return True


def _is_shifted(index: exp.Expr) -> bool:
    """Whether sqlglot knew that an index is an integer, and made it count from 0."""
    from sqlglot import exp

    cast = index.this if isinstance(index, exp.Add) else None
    return isinstance(cast, exp.Cast) and cast.to.is_type("bigint")


def _gives_double(node: exp.Expr) -> bool:
    """Whether a value may have a fraction, as far as the text shows."""
    if type(node).__name__ in GIVE_DOUBLES:
        return True
    inside = type(node).__name__ in ("Add", "Sub", "Mul", "Neg", "Paren", "Coalesce", "Sum")
    return inside and any(_gives_double(child) for child in node.iter_expressions())
