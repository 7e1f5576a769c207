"""The SQL that means the same on DuckDB and, through sqlglot, on Spark; views use nothing else.

`tests/spark/constructs.yaml` shows each entry on both engines: an entry without a case fails there.
"""

from __future__ import annotations

# Integers of `//`, row_number, array_length and array_position differ in width, and sums of BIGINT
# too: a view casts what it returns to bigint.
#
# What a syntax tree may hold: sqlglot's name of a node -> the parts of it that may be present.
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
        "Lower": "this",
        "RegexpExtract": "expression group null_if_pos_overflow this",
        "Replace": "expression replacement this",
        "Upper": "this",
        # Aggregates and windows
        "Avg": "this",
        "Count": "big_int this",
        "Lag": "this",
        "Lead": "this",
        "LogicalAnd": "this",
        "LogicalOr": "this",
        "Max": "this",
        "Min": "this",
        "Order": "expressions",
        "Ordered": "desc nulls_first this",
        "RowNumber": "",
        "Sum": "this",
        "Window": "order over partition_by spec this",
        "WindowSpec": "end end_side kind start start_side",
    }.items()
}

# What a query may hold besides: its rows come in an order, and people nest one in another.
QUERIES: dict[str, frozenset[str]] = {
    name: frozenset(parts.split())
    for name, parts in {
        "Select": "limit offset order",
        "Union": "limit offset order",
        "Limit": "expression",
        "Offset": "expression",
        "Join": "using",
        "Subquery": "alias this",
        "Exists": "this",
        "Group": "all",
        "Var": "this",
    }.items()
}

# Parts whose text matters: (node, part) -> what it may say.
SAID: dict[tuple[str, str], frozenset[str]] = {
    ("Var", "this"): frozenset({"ALL"}),
    ("Join", "side"): frozenset({"LEFT"}),
    ("Join", "kind"): frozenset({"INNER", "CROSS"}),
    ("WindowSpec", "kind"): frozenset({"ROWS"}),
    ("DataType", "this"): frozenset({"BIGINT", "DOUBLE", "TEXT", "VARCHAR"}),
}

# Why a construct is not on the list, or what to write in its place; found by trying.
REASONS: dict[str, str] = {
    "Qualify": "leaks a column on Spark; filter in an outer SELECT",
    "WithinGroup": "becomes approximate on Spark; take the value of row ceil(p n)",
    "PercentileCont": "becomes approximate on Spark; take the value of row ceil(p n)",
    "PercentileDisc": "becomes approximate on Spark; take the value of row ceil(p n)",
    "Quantile": "takes the value of row ceil(p n) only by a row number; write that",
    "Median": "take the value of row ceil(n / 2)",
    "Length": "len fails on lists, which cannot be told from texts here; use array_length",
    "Pivot": "PIVOT fails; aggregate CASEs",
    "WithOrdinality": "counts from 0 on Spark",
    "Unnest": "steps and ordinals differ on Spark; join a VALUES list of numbers",
    "Explode": "steps and ordinals differ on Spark; join a VALUES list of numbers",
    "Floor": "gives a bigint on Spark; use round() or //",
    "Ceil": "gives a bigint on Spark; use (a + b - 1) // b",
    "TryCast": "hides what is wrong with a value; mend it at ingest",
    "Filter": "aggregate a CASE",
    "Lambda": "lambdas are not carried over",
    "JSONExtract": "JSON arrows are not carried over; parse at ingest",
    "JSONExtractScalar": "JSON arrows are not carried over; parse at ingest",
    "DPipe": "write concat(…), which skips NULLs on both",
    "Limit": "keeps other rows on each engine",
    "In": "a query's rows give false on Spark where NULL is meant; use EXISTS or a join",
    "First": "has no order; use min or max",
    "AnyValue": "has no order; use min or max",
    "ArgMax": "has no order among equals; use a row number",
    "ArgMin": "has no order among equals; use a row number",
}
