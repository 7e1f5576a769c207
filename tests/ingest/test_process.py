"""What a process that ingests sets before it imports anything heavy."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

from xlahouse.ingest.process import loading

SCRIPT = """
from xlahouse.ingest.process import prepare_process
prepare_process()
import os
import pyarrow
from numpy._core.multiarray import _get_madvise_hugepage
print(pyarrow.default_memory_pool().backend_name, os.environ["MALLOC_ARENA_MAX"], _get_madvise_hugepage())
"""


def told(**environment: str) -> list[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    for name in ("ARROW_DEFAULT_MEMORY_POOL", "NUMPY_MADVISE_HUGEPAGE"):
        clean.pop(name, None)
    given = clean | environment
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], env=given, capture_output=True, text=True, check=True
    ).stdout.split()


def test_arrow_takes_its_memory_where_numpy_does_and_workers_inherit_it():
    assert told() == ["system", "1", "False"]


def test_what_the_user_has_set_stays():
    set_by_user = {"ARROW_DEFAULT_MEMORY_POOL": "mimalloc", "MALLOC_ARENA_MAX": "3"}
    assert told(**set_by_user, NUMPY_MADVISE_HUGEPAGE="1") == ["mimalloc", "3", "True"]


def test_garbage_is_looked_for_again_once_all_is_loaded():
    with loading():
        assert not gc.isenabled()
    assert gc.isenabled()
