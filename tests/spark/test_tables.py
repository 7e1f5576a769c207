"""Tables and sessions on Spark: what Parquet holds that Spark has no type for, odd paths, settings."""

from __future__ import annotations

import datetime

import pytest

from tests.spark.engines import differences
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import QueryError, WarehouseError
from xlahouse.ingest.table import types
from xlahouse.sql import Warehouse
from xlahouse.sql.library import TABLES
from xlahouse.sql.spark import register, to_spark
from xlahouse.sql.types import DUCKDB_TYPES, SPARK_TYPES

pytestmark = pytest.mark.xdist_group("spark")
LARGEST = 2**64 - 1
GIVEN = {
    "runs": [
        {
            "run_id": "r",
            "captured_at": datetime.datetime(2025, 3, 30, 1, 30, 0, 5, datetime.UTC),
            "mesh": [{"axis": "tp", "size": 2}],
            "mesh_device_ids": [1, 0],
            "source_files": [{"path": "a", "bytes": 1, "sha256": "b"}],
        }
    ],
    "launches": [{"program_id": LARGEST, "start_ps": 2**62}, {"program_id": None}],
    "devices": [{"device_id": 0, "coords": [0, 1], "inferred": False}],
    "run_settings": [
        {
            "run_id": "r",
            "mesh": [{"axis": "dp", "size": 2}],
            "device_kind": "v4",
            "peaks": {"bf16_flops": 1e15},
        }
    ],
}


def test_every_type_has_a_name_on_every_engine():
    assert set(SPARK_TYPES) == set(DUCKDB_TYPES) == set(types())


def test_tables_are_read_alike(spark, tmp_path):
    session = spark.newSession()
    with Warehouse(write_warehouse(tmp_path / "a [b] {c} ?", GIVEN)) as warehouse:
        register(session, warehouse, set(TABLES))
        for table in TABLES:
            ours, theirs = warehouse.query(f"from {table}").arrow(), session.table(table).toArrow()
            assert differences(ours, theirs) == [], table
    (found,) = session.sql("select max(program_id) as p from launches").toArrow()["p"].to_pylist()
    assert int(found) == LARGEST


def test_a_bare_name_is_the_newest_version(spark, tmp_path):
    session = spark.newSession()
    with Warehouse(write_warehouse(tmp_path, {})) as warehouse:
        register(session, warehouse, {"run_mesh"})
    assert session.table("run_mesh").columns == session.table("run_mesh_v1").columns


def test_a_session_that_hides_errors_is_refused(spark, tmp_path):
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    with (
        Warehouse(write_warehouse(tmp_path, {})) as warehouse,
        pytest.raises(WarehouseError, match=r"spark\.sql\.ansi\.enabled=true"),
    ):
        register(session, warehouse, {"runs"})


def test_what_does_not_parse_is_a_query_error():
    with pytest.raises(QueryError, match="Spark"):
        to_spark("select from from")
