"""The command line as a process: exit codes, pipes, and what each start loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def script(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The console script as a process."""
    return subprocess.run(
        [sys.executable, "-c", "from xlahouse.sql.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_as_a_process(root: Path) -> None:
    done = script("query", "select 1 as a, 'ä' as t", "-w", str(root), PYTHONUTF8="0", LC_ALL="C")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "a  t\n-  -\n1  ä\n"
    done = script("query", "from nothing", "-w", str(root))
    assert (done.returncode, done.stdout) == (1, "")
    assert script("--version").stdout.startswith("xlahouse ")


def test_a_reader_that_goes_away_is_no_error(root: Path) -> None:
    writer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from xlahouse.sql.cli import main; main()",
            *("query", "from range(1000000)", "--format", "csv", "-w", str(root)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    assert writer.stdout.readline() == "range\n"
    writer.stdout.close()
    errors = writer.stderr.read()
    writer.stderr.close()
    writer.wait()
    assert errors == ""


@pytest.mark.parametrize("arguments", [["--help"], ["query", "--help"]], ids=" ".join)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom xlahouse.sql.cli import main\n"
        f"sys.argv = ['xlahouse', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'duckdb', 'polars', 'pyarrow', 'altair', 'sqlglot', 'torch', 'rich', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_a_query_loads_only_the_database(root: Path) -> None:
    code = (
        "import sys\nfrom xlahouse.sql.cli import main\n"
        f"sys.argv = ['xlahouse', 'query', 'from run_summary', '-w', {str(root)!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'polars', 'altair', 'sqlglot', 'torch', 'pyarrow', 'numpy', 'fsspec', 'msgspec'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
