"""Small runs with numbers that fit in a head, and a warehouse in memory that answers SQL over them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any

import polars as pl
import pyarrow as pa

from tests.device_steps import with_device_steps
from tests.views.contract import CONTRACT
from tests.warehouse import empty_database
from xlahouse.reports.charts.facts import FACTS_SQL, PageFacts, read_facts
from xlahouse.reports.headline import SUMMARY_SQL
from xlahouse.reports.pages import RUN_PAGES, SITE_PAGES
from xlahouse.sql.library import TABLES, shipped

Row = dict[str, Any]
Tables = dict[str, list[Row]]

# Every panel once: some stand on two pages.
RUN_PANELS = tuple(dict.fromkeys(panel for page in RUN_PAGES.values() for panel in page))
SITE_PANELS = tuple(dict.fromkeys(panel for page in SITE_PAGES.values() for panel in page))

US = 1_000_000  # picoseconds
MIB = 1_048_576
STEP_US = 200
# Op, category, kind, start and end in a step, us: METRICS' example of a time split.
OPS = (
    ("dot.3", "compute", None, 0, 80),
    ("all-reduce.1", "collective", "all-reduce", 30, 40),
    ("all-gather.2", "collective", "all-gather", 60, 100),
)

# Query, parameters and the rows below -> its answer: headlines of the same run are asked for all the time.
ANSWERS: dict[tuple[str, ...], pl.DataFrame] = {}


@cache
def contract() -> dict[str, dict[str, str]]:
    """View -> column -> its type."""
    return json.loads(CONTRACT.read_text("utf-8"))


@lru_cache
def _named(sql: str) -> frozenset[str]:
    """Tables and views whose names stand in a query."""
    return frozenset(name for name in {*TABLES, *shipped().views} if name in sql)


@dataclass
class Answer:
    frame: pl.DataFrame

    def pl(self) -> pl.DataFrame:
        return self.frame

    def dicts(self) -> list[Row]:
        return self.frame.to_dicts()


@cache
def schema_of_internal(name: str) -> pa.Schema:
    """The columns of a view that the contract leaves out, over tables without rows."""
    tables, _ = shipped().closure({name})
    with empty_database() as connection:
        for table in tables:
            connection.register(f"no {table}", TABLES[table].schema.empty_table())
            connection.execute(f'create table {table} as from "no {table}"')
        connection.execute(f"create view {name} as {shipped().statement(name)}")
        return connection.sql(f"from {name}").to_arrow_table().schema


@dataclass
class Store:
    """The shipped views over `tables`. Rows given under a view's name replace that view."""

    tables: Tables
    asked: list[str] = field(default_factory=list)
    root: str = "./warehouse"

    def __post_init__(self) -> None:
        self.tables = with_device_steps(self.tables)
        self.connection = empty_database()
        self._known: set[str] = set()
        self._digests = {
            name: sha256(repr(rows).encode()).hexdigest() for name, rows in self.tables.items()
        }
        for name in self.tables:
            self._create(name)

    def _rows_below(self, sql: str) -> tuple[str, ...]:
        """The given rows that a query may read: stores that have the same ones share its answer."""
        tables, views = shipped().closure(set(_named(sql)))
        below = tables | {view.name for view in views}
        return tuple(f"{name} {self._digests[name]}" for name in sorted(below & set(self._digests)))

    def _install(self, sql: str) -> None:
        """Create the tables that a query rests on, and the views, each computed once: deep ones take
        longer to plan than to run."""
        library = shipped()
        tables, views = library.closure(set(_named(sql)) - self._known, self._known)
        for name in sorted(tables - self._known):
            self._create(name)
        for view in views:
            if view.name not in self._known:
                statement = library.statement(view.name, self._known)
                self.connection.execute(f"create table {view.name} as {statement}")
                self._known.add(view.name)

    def _create(self, name: str) -> None:
        schema = TABLES[name].schema if name in TABLES else self._schema_of_view(name)
        given = self.tables.get(name, [])
        strange = {column for row in given for column in row} - set(schema.names)
        assert not strange, f"{name} has no columns {strange}"
        whole = [{column: row.get(column) for column in schema.names} for row in given]
        self.connection.register("given", pa.Table.from_pylist(whole, schema=schema))
        self.connection.execute(f"create table {name} as from given")
        self._known.add(name)

    def _schema_of_view(self, name: str) -> pa.Schema:
        if name not in contract():
            return schema_of_internal(name)
        typed = ", ".join(f"null::{kind} as {column}" for column, kind in contract()[name].items())
        return self.connection.sql(f"select {typed}").to_arrow_table().schema

    def query(self, sql: str, params: Mapping[str, Any] | None = None) -> Answer:
        self.asked.append(sql)
        key = (sql, repr(params), *self._rows_below(sql))
        if key not in ANSWERS:
            self._install(sql)
            frame = pl.from_arrow(self.connection.sql(sql, params=params).to_arrow_table())
            assert isinstance(frame, pl.DataFrame)
            ANSWERS[key] = frame
        return Answer(ANSWERS[key])

    def of_run(
        self, run: str, kept: Collection[str] = (), threads: int | None = None
    ) -> AbstractContextManager[Store]:
        return nullcontext(self)

    def facts(self) -> list[PageFacts]:
        return read_facts(self.query(FACTS_SQL).pl(), self.query(SUMMARY_SQL).pl(), self.root)


def merge(*parts: Tables) -> Tables:
    names = {name for part in parts for name in part}
    return {name: [row for part in parts for row in part.get(name, [])] for name in names}


def example_run(
    run_id: str, name: str, mesh: dict[str, int], requests: int = 3, steps: int = 4
) -> Tables:
    """A marked run on 4 virtual devices: a step every 200 us, in each the OPS on every device.

    Groups lie along the minor axis. Payloads are 16 MiB in the prefill and 1 MiB in a decode step.
    Each marker starts 5 us before its ops.
    """
    tables: Tables = {
        "runs": [_run_row(run_id, name, mesh, requests, steps)],
        "devices": [_device_row(run_id, device) for device in range(4)],
        "replica_groups": _group_rows(run_id, list(mesh.values())[-1]),
        "issues": [_issue_row(run_id)],
        "coverage": [_coverage_row(run_id)],
        "phases": [],
        "ops": [],
        "collectives": [],
        "busy_intervals": [],
    }
    for request in range(requests):
        for step in range(steps):
            key = {"run_id": run_id, "request": request, "step": step}
            start = (request * steps + step) * STEP_US * US
            marker = {"phase": _phase(step), "start_ps": start - 5 * US, "duration_ps": 120 * US}
            tables["phases"].append({**key, **marker, "host": "h", "source": "marker"})
            for device in range(4):
                _add_step(tables, key, start, device, list(mesh.values())[-1])
    return tables


def _phase(step: int) -> str:
    return "decode" if step else "prefill"


def _add_step(tables: Tables, key: Row, start: int, device: int, size: int) -> None:
    for place, (op, category, kind, first, last) in enumerate(OPS):
        span = {"start_ps": start + first * US, "duration_ps": (last - first) * US}
        own = {**key, **span, "device_id": device}
        tables["busy_intervals"].append({**own, "category": category})
        facts = {"program_id": 7, "module": "step", "op": op, "phase": _phase(key["step"])}
        tables["ops"].append({**own, **facts, "category": category})
        if kind is not None:
            group = device // size
            # One number for each execution of an op by a group.
            execution = key["request"] * 1000 + key["step"] * 10 + place
            transfer = {
                "kind": kind,
                "instance": execution * 10 + group,
                "group_index": group,
                "group_size": size,
                "dtype": "f32",
                "payload_bytes": MIB * (1 if key["step"] else 16),
                "arrival_ps": span["start_ps"],
                "is_async": False,
            }
            tables["collectives"].append({**own, **facts, **transfer})


def _run_row(run_id: str, name: str, mesh: dict[str, int], requests: int, steps: int) -> Row:
    return {
        "run_id": run_id,
        "name": name,
        "framework": "torch_xla",
        "framework_versions": '{"torch_xla": "2.9.0", "torch": "2.9.1"}',
        "model": "qwen3-tiny",
        "model_family": "qwen3",
        "layers": 2,
        "hidden_size": 256,
        "dtype": "float32",
        "batch_size": 4,
        "microbatches": 1,
        "prompt_tokens": 64,
        "output_tokens": steps,
        "parallelism": ".".join(f"{axis}{size}" for axis, size in mesh.items()),
        "mesh": [{"axis": axis, "size": size} for axis, size in mesh.items()],
        "device_kind": "cpu",
        "device_count": 4,
        "host_count": 1,
        "source": "xplane",
        "duration_ps": requests * steps * STEP_US * US,
        "status": "complete",
        "measured_ttft_s": 110e-6,
        "measured_tpot_s": 210e-6,
    }


def _device_row(run_id: str, device: int) -> Row:
    key = {"run_id": run_id, "device_id": device, "world": 0, "logical_id": device}
    return {**key, "traced": True, "kind": "cpu", "core": "cpu", "inferred": True}


def _group_rows(run_id: str, size: int) -> list[Row]:
    rows = []
    for op in ("all-reduce.1", "all-gather.2"):
        for device in range(4):
            key = {"run_id": run_id, "world": 0, "program_id": 7, "op": op}
            place = {"group_index": device // size, "position": device % size}
            rows.append({**key, **place, "logical_id": device, "device_id": device})
    return rows


def _issue_row(run_id: str) -> Row:
    finding = {"severity": "info", "code": "device_inferred", "message": "Identity is deduced."}
    return {"run_id": run_id, "source": "host.xplane.pb", "count": 4, **finding}


def _coverage_row(run_id: str) -> Row:
    events = {"events_read": 1000, "rows_written": 998, "events_rejected": 2}
    line = {"source": "host.xplane.pb", "plane": "/host:CPU", "line": "1", "table_name": "ops"}
    return {"run_id": run_id, **line, **events}
