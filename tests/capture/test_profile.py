"""The profiler's session: one without a filled xplane is not a capture."""

from __future__ import annotations

import pytest

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.run.profile import check_session
from xlahouse.capture.run.record import Counts, check_counts


def test_a_filled_xplane_is_accepted(tmp_path):
    session = tmp_path / "plugins/profile/s"
    session.mkdir(parents=True)
    (session / "h.xplane.pb").write_bytes(b"x")
    check_session(tmp_path)


def test_a_missing_or_empty_xplane_is_refused(tmp_path):
    with pytest.raises(CaptureError, match="wrote no xplane"):
        check_session(tmp_path)
    session = tmp_path / "plugins/profile/s"
    session.mkdir(parents=True)
    (session / "h.xplane.pb").touch()
    with pytest.raises(CaptureError, match=r"h\.xplane\.pb: the profiler wrote an empty xplane"):
        check_session(tmp_path)


def test_a_compilation_is_refused_and_a_second_launch_warned_of():
    assert check_counts(Counts(9, 34) - Counts(9, 10), steps=24) == []
    assert check_counts(Counts(compiles=0, launches=48), steps=24) == [
        "48 launches for 24 steps, but one a step is expected"
    ]
    with pytest.raises(CaptureError, match="compiled 2 times"):
        check_counts(Counts(compiles=2, launches=24), steps=24)
