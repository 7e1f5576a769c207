"""Fixtures that tests of several folders share."""

from __future__ import annotations

import fcntl
import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples on every machine, and no example fails for being slow there.
settings.register_profile("xlahouse", derandomize=True, deadline=None)
settings.load_profile("xlahouse")

DEMO_PLAN = Path(__file__).parents[1] / "capture" / "plans" / "demo.yaml"


@pytest.fixture(scope="session")
def demo_traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A traces folder with both captures of the demo plan, really run, once per test session.

    It takes about 40 s. Mark users `@pytest.mark.xdist_group("capture")`: others would wait for it.
    """
    missing = [
        name
        for name in ("torch", "torch_xla", "transformers")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        pytest.skip(f"a real capture needs {', '.join(missing)}: install xlahouse[capture]")
    from xlahouse.capture.run.runner import run_plan

    base = tmp_path_factory.getbasetemp()
    # Under xdist each worker has a base of its own, and the session's is its parent.
    traces = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "demo_traces"
    traces.mkdir(exist_ok=True)
    with (traces / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run_plan(DEMO_PLAN, traces, device="cpu")  # a second worker finds all of it captured
    return traces
