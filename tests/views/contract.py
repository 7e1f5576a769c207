"""Writes contract.json, every view's columns and types: `python -m tests.views.contract`.

Run it after adding a view, and read the diff: a change to a released view needs a new version.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse

CONTRACT = Path(__file__).with_name("contract.json")
COLUMNS_SQL = (
    "select table_name, column_name, data_type from duckdb_columns() order by column_index"
)


def contract(root: Path) -> dict[str, dict[str, str]]:
    """View -> column -> DuckDB's name of its type, from a warehouse at `root`."""
    with Warehouse(write_warehouse(root, {})) as warehouse:
        names = [view.name for view in warehouse.library.public]
        found: dict[str, dict[str, str]] = {name: {} for name in names}
        for view, column, kind in warehouse.query(COLUMNS_SQL).rows:
            if view in found:
                found[view][column] = kind
        return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        CONTRACT.write_text(json.dumps(contract(Path(folder)), indent=2) + "\n")


if __name__ == "__main__":
    main()
