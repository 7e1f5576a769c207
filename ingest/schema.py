"""All tables of a warehouse, and the versions of their layout and of the ingest that fills them.

Every column's name, type and meaning is in one of the `schema_*.py` files. Time is BIGINT picoseconds
since the run's time zero; a column's unit is part of its name.
"""

from __future__ import annotations

from xlahouse.ingest.schema_devices import DEVICES
from xlahouse.ingest.schema_findings import FINDINGS
from xlahouse.ingest.schema_predicted import PREDICTED
from xlahouse.ingest.schema_programs import PROGRAMS
from xlahouse.ingest.schema_runs import RUNS

LAYOUT_VERSION = 1
INGEST_VERSION = 18

TABLES = (*RUNS, *DEVICES, *PROGRAMS, *FINDINGS, *PREDICTED)
BY_NAME = {table.name: table for table in TABLES}
