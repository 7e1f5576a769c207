"""Fixtures that tests of several folders share."""

from __future__ import annotations

import fcntl
import gc
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests import layers
from tests.samples import sample

if TYPE_CHECKING:
    from xlahouse.sql.place import Place

# The same examples on every machine, and no example fails for being slow there.
settings.register_profile("xlahouse", derandomize=True, deadline=None)
settings.load_profile("xlahouse")

# Groups and test files that run longest begin first, so that no worker is left with one at the end.
LONGEST_FIRST = ("planted", "capture", "spark", "spark_runs", "spark_cluster", "synthetic", "cases")
LONGEST_FIRST += ("test_properties", "test_endurance", "test_site_again", "test_export_duckdb")

# Threads of torch that wait for each other leave the cores to other workers.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

ROOT = Path(__file__).parents[1]
DEMO_PLAN = ROOT / "capture" / "plans" / "demo.yaml"


def pytest_configure(config: pytest.Config) -> None:
    """Let every worker draw its samples from the same seed."""
    os.environ[layers.SEED] = layers.seed()


def pytest_report_header(config: pytest.Config) -> str:
    """How to repeat the samples of this run."""
    if layers.takes_all():
        return "samples: everything (ALL=1)"
    return f"samples: of seed {layers.seed()}; {layers.SEED}={layers.seed()} repeats them, ALL=1 takes all"


@pytest.hookimpl(tryfirst=True)  # before -m selects by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the longest groups to the front; the order within a group stays.

    Quick tests of a file are one group, so that what a file's tests share is built by one worker.
    Of the whole verify layer the tests run whose turn this commit is; with -k every one that matches.
    """
    left = []
    if config.option.markexpr == "verify" and not config.option.keyword:
        long = [item for item in items if item.get_closest_marker("verify")]
        left = [item for item in long if not layers.has_its_turn(_turn(item))]
    if left:
        config.hook.pytest_deselected(items=left)
    for item in items:
        if not item.get_closest_marker("xdist_group") and not item.get_closest_marker("verify"):
            item.add_marker(pytest.mark.xdist_group(str(item.path.relative_to(ROOT))))
    without = set(left)
    items[:] = sorted((item for item in items if item not in without), key=_place)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Spare the garbage collector what was imported and collected, which stays."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _one_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """Queries of `make test` take one thread: its workers share the cores, and on small runs a second thread
    of DuckDB costs a sixth of its CPU time. The long layer takes as many as users have."""
    if request.config.option.markexpr != "not verify":
        yield
        return
    from xlahouse.sql.database import Database

    made = Database.__init__

    def narrow(self: Database, place: Place, limits: Mapping[str, str] | None = None) -> None:
        made(self, place, {"threads": "1", **(limits or {})})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "__init__", narrow)
        yield


def _turn(item: pytest.Item) -> str:
    """Tests of one turn: a test, or a whole file where `verify(together=True)` is its mark."""
    mark = item.get_closest_marker("verify")
    together = mark and mark.kwargs.get("together")
    return item.path.name if together else item.nodeid


def _place(item: pytest.Item) -> int:
    mark = item.get_closest_marker("xdist_group")
    group = Path(mark.args[0]).stem if mark else item.path.stem
    return LONGEST_FIRST.index(group) if group in LONGEST_FIRST else len(LONGEST_FIRST)


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What xlahouse remembers of a user is not that of who runs the tests."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def once(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str, Callable[[Path], object]], Path]:
    """`once(name, fill)` is a folder that one worker fills for all of them; nothing may change it."""
    base = tmp_path_factory.getbasetemp()
    # Under xdist each worker has a base of its own, and the session's is its parent.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def built(name: str, fill: Callable[[Path], object]) -> Path:
        folder, done = shared / name, shared / f"{name}.done"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)  # of a worker that failed
                folder.mkdir()
                fill(folder)
                done.touch()
        return folder

    return built


@pytest.fixture(scope="session")
def sample_warehouse(
    once: Callable[[str, Callable[[Path], object]], Path],
) -> Callable[[str], Path]:
    """`sample_warehouse(name)` is a warehouse of one public sample trace, to be read."""
    from xlahouse.ingest.run import ingest_paths

    def ingested(name: str) -> Path:
        path = str(sample(name))
        return once(
            f"warehouse of {name}".replace("/", " "),
            lambda folder: ingest_paths([path], str(folder), workers=1),
        )

    return ingested


@pytest.fixture(scope="session")
def demo_traces(once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
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

    return once("demo_traces", lambda folder: run_plan(DEMO_PLAN, folder, device="cpu"))
