"""What a process that ingests sets before it imports anything heavy."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
from xlahouse.ingest.process import prepare_process
prepare_process()
import os
import pyarrow
print(pyarrow.default_memory_pool().backend_name, os.environ["MALLOC_ARENA_MAX"])
"""


def told(**environment: str) -> list[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    clean.pop("ARROW_DEFAULT_MEMORY_POOL", None)
    given = clean | environment
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], env=given, capture_output=True, text=True, check=True
    ).stdout.split()


def test_arrow_takes_its_memory_where_numpy_does_and_workers_inherit_it():
    assert told() == ["system", "1"]


def test_what_the_user_has_set_stays():
    assert told(ARROW_DEFAULT_MEMORY_POOL="mimalloc", MALLOC_ARENA_MAX="3") == ["mimalloc", "3"]
