"""Virtual devices of a runtime that renamed what their durations and steps depend on."""

from __future__ import annotations

import pytest

from tests.ingest.xplane.test_cpu import Host, run_on_two


@pytest.mark.parametrize(("ends", "count"), [((None, None), 2), ((None, 178), 0), ((176, 178), 0)])
def test_ends_of_another_name_are_a_finding(ends, count):
    """A profile that ends cuts some off; where a name has none at all, they have another name."""
    host = Host()
    run_on_two(host)
    host.record("pool-c", 156, 6)
    host.region("pool-b", 170, 180, 6)
    for number, end in enumerate(ends):
        host.op("pool-b", "add", 171 + number, 1, 40 + number, end=end)
    found = {issue.code: issue.count for issue in host.read().issues}
    assert found["op_end_unknown"] == 2 + count  # the two of run_on_two have none


def test_a_step_that_states_no_number_is_a_finding():
    host = Host()
    run_on_two(host)
    host.event("python", "train", 90, 200, _r=1)
    assert "marker_incomplete" in {issue.code for issue in host.read().issues}
