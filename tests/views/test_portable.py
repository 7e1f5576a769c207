"""The lint names each construct that is not on the list of what carries over to Spark."""

from __future__ import annotations

import pytest

from xlahouse.sql.check.lint import lint
from xlahouse.sql.library import View


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("quantile_cont(op, 0.5e0)", "PercentileCont: becomes approximate"),
        ("percentile_cont(0.5e0) within group (order by op)", "WithinGroup: becomes approximate"),
        ("median(op)", "Median: take the value of row ceil(n / 2)"),
        ("len(op)", "Length: len fails on lists"),
        ("op || 'x'", "DPipe: write concat"),
        ("floor(op)", "Floor: gives a bigint on Spark"),
        ("list_transform(op, x -> x + 1)", "Lambda: lambdas are not translated"),
        ("unnest(range(0, 10, 2))", "GenerateSeries step: starts, ends and steps differ"),
        ("unnest(range(1, 10))", "GenerateSeries: starts, ends and steps differ"),
        ("unnest(generate_series(0, 10))", "GenerateSeries: starts, ends and steps differ"),
        ("unnest(mesh)", "Explode: starts, ends and steps differ"),
        ("range(3)", "GenerateSeries: starts, ends and steps differ"),
        ("string_agg(op, '+')", "GroupConcat: has no order"),
        ("max(op order by op)", "Order: an order inside an aggregate is lost"),
        ("mesh[op]", "Bracket: counts from 0 on Spark"),
        ("mesh[op + 1]", "Bracket: counts from 0 on Spark"),
        ("sum(op) filter (where op > 0)", "Filter: aggregate a CASE"),
        ("first(op)", "First: has no order"),
        ("no_such_thing(op)", "no_such_thing: no test shows"),
        ("(select max(op) from ops)", "Subquery: no test shows"),
        ("op::ubigint", "DataType UBIGINT: no test shows"),
        ("op::hugeint", "DataType INT128: no test shows"),
        ("0.5", "0.5: a DECIMAL"),
        ("cast(op / 2 as bigint)", "round() first"),
        ("cast(sum(op * exp(op)) as bigint)", "round() first"),
    ],
)
def test_expression_is_named(expression: str, fault: str) -> None:
    sql = f"-- one row per x\nselect\n    -- a\n    {expression} as a\nfrom ops\n"
    assert fault in " ".join(lint(View("x_v1", sql)))


@pytest.mark.parametrize(
    ("rest", "fault"),
    [
        ("from ops asof join runs on ops.op >= runs.name", "Join method"),
        ("from ops full join runs on ops.op = runs.name", "Join FULL"),
        ("from ops inner join runs using (run_id)", "Join using"),
        ("from ops qualify row_number() over (partition by op order by op) = 1", "leaks a column"),
        ("from ops union by name select 1 as a", "Union by_name"),
        ("from ops limit 3", "Limit: keeps different rows"),
        ("from ops group by all", "Group all"),
        ("from (select * exclude (op) from ops) as o", "Star except"),
    ],
)
def test_clause_is_named(rest: str, fault: str) -> None:
    sql = f"-- one row per x\nselect\n    -- a\n    op as a\n{rest}\n"
    assert fault in " ".join(lint(View("x_v1", sql)))


@pytest.mark.parametrize(
    "expression",
    [
        "cast(round(op / 2) as bigint)",
        "cast(op // 2 as bigint)",
        "0.5e0",
        "count(distinct op)",
        "unnest(range(op))",
        "string_agg(op, '+' order by op)",
        "mesh[cast(op + 1 as bigint)]",
    ],
)
def test_what_carries_over_passes(expression: str) -> None:
    sql = f"-- one row per x\nselect\n    -- a\n    {expression} as a\nfrom ops\n"
    assert lint(View("x_v1", sql)) == []
