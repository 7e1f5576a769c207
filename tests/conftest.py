"""Fixtures that tests of several folders share."""

from __future__ import annotations

import fcntl
import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests import layers

# The same examples on every machine, and no example fails for being slow there.
settings.register_profile("xlahouse", derandomize=True, deadline=None)
settings.load_profile("xlahouse")

# What runs longest begins first, so that no worker is left with it at the end: groups, or names of files.
LONGEST_FIRST = ("capture", "spark", "spark_runs", "planted", "synthetic", "chromium")

DEMO_PLAN = Path(__file__).parents[1] / "capture" / "plans" / "demo.yaml"


def pytest_configure(config: pytest.Config) -> None:
    """Let every worker draw its samples from the same seed."""
    os.environ[layers.SEED] = layers.seed()


def pytest_report_header(config: pytest.Config) -> str:
    """How to repeat the samples of this run."""
    if layers.takes_all():
        return "samples: everything (ALL=1)"
    return f"samples: of seed {layers.seed()}; {layers.SEED}={layers.seed()} repeats them, ALL=1 takes all"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the longest groups to the front; the order within a group stays."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    mark = item.get_closest_marker("xdist_group")
    group = mark.args[0] if mark else ""
    return LONGEST_FIRST.index(group) if group in LONGEST_FIRST else len(LONGEST_FIRST)


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
