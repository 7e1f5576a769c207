"""Finds the tables of runs that do not have the rows which their ingest wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlahouse.ingest.schema import BY_NAME

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse

_COUNTED = "select '{table}' as name, run_id, count(*) as there from {table} group by run_id"
_DIFFERING = """
with listed as (
    select run_id, unnest(files) as file from runs
),
written as (
    select run_id, file."table" as name, sum(file.rows) as written from listed group by all
),
found as (
    {counted}
)
select coalesce(r.name, w.run_id) as run, w.name as table_name, coalesce(f.there, 0) as there, w.written
from written as w
join runs as r on r.run_id = w.run_id
left join found as f on f.run_id = w.run_id and f.name = w.name
where coalesce(f.there, 0) <> w.written
order by all
"""


def changed_tables(warehouse: Warehouse) -> list[str]:
    """A line for each table of a run with more or fewer rows than its ingest wrote.

    Raises:
        WarehouseError: a file of the warehouse vanished or is damaged.
    """
    tables = [name for name in BY_NAME if name != "runs" and warehouse.files(name)]
    if not tables:
        return []
    counted = "\n    union all ".join(_COUNTED.format(table=table) for table in tables)
    return [
        f"{row['run']}: table {row['table_name']} has {row['there']:,} rows, and its ingest wrote "
        f"{row['written']:,}: a file of it was replaced; drop the run and ingest it again"
        for row in warehouse.query(_DIFFERING.format(counted=counted)).dicts()
    ]
