"""The verb `runs`."""

from __future__ import annotations

from xlahouse.sql.cli.answer import answer
from xlahouse.sql.cli.options import FormatOption, LimitOption, WarehouseOption
from xlahouse.sql.limits import QueryLimits


def runs(
    warehouse: WarehouseOption = "./warehouse",
    format: FormatOption = None,
    limit: LimitOption = None,
) -> None:
    """List the runs.

    \b
    Examples:
      xlahouse runs
      xlahouse runs --limit 5000
      xlahouse runs -w wh --format csv
    """
    sql = """
        select run_id, name, model, parallelism, device_kind,
            case when source = 'compiled' then expected_device_count else device_count end
                as device_count,
            source, status, captured_at
        from runs order by captured_at, run_id
    """
    answer(warehouse, sql, {}, format, None, QueryLimits(rows=limit))
