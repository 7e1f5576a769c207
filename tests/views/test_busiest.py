"""The busiest device of a run: rounding of sums, whose order no engine promises, chooses none."""

from __future__ import annotations

import duckdb
import pytest

from xlahouse.sql.library import shipped


@pytest.mark.parametrize(("extra", "busiest"), [(0.0, 0), (2.0, 1)])
def test_a_sum_that_differs_by_rounding_is_a_tie(extra, busiest):
    """0.1 + 0.2 is 0.30000000000000004 in floating point, so that device 1 would seem to send more."""
    rows = [(0, 0, 0.3), (0, 1, 0.0), (1, 0, 0.1 + extra), (1, 1, 0.2)]
    with duckdb.connect() as database:
        database.execute("create table devices as select 'r' run_id, unnest([0, 1]) device_id")
        database.execute("alter table devices add column inferred boolean")
        database.execute("alter table devices add column core varchar")
        database.execute(
            "create table traffic_profile_v1 (run_id varchar, device_id bigint, phase varchar, "
            "bin bigint, period_ps bigint, bytes_per_s double)"
        )
        database.executemany(
            "insert into traffic_profile_v1 values ('r', ?, 'decode', ?, 100, ?)", rows
        )
        found = database.execute(shipped().views["_job_demand_v1"].sql).fetchall()
    assert {row[2] for row in found} == {busiest}
