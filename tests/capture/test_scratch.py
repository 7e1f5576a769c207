"""Temporary files of a process that was killed go with the next process; no other folder does."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from xlahouse.capture.scratch import _made, remove_abandoned, scratch_folder

USES = """
import os, signal, sys
from pathlib import Path
from xlahouse.capture.scratch import scratch_folder
Path(scratch_folder(), "unpacked").write_bytes(bytes(1000))
print(scratch_folder(), flush=True)
sys.stdin.readline()
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("end", ["killed", "done"])
def test_a_folder_is_there_for_as_long_as_its_process(place: Path, end: str) -> None:
    command = [sys.executable, "-c", USES, end]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        remove_abandoned()
        assert (folder / "unpacked").stat().st_size == 1000
        process.communicate("\n")
    assert folder.parent == place
    assert folder.exists() == (end == "killed")
    remove_abandoned()
    assert not folder.exists()


def test_no_other_folder_is_removed(place: Path) -> None:
    """One that an earlier version made, or that is being made, has no lock; a link leads elsewhere."""
    for name in ("xlahouse-earlier", "of-another", "elsewhere"):
        (place / name).mkdir()
    for name in ("of-another", "elsewhere"):
        (place / name / "in-use").touch()
    (place / "xlahouse-link").symlink_to(place / "elsewhere")
    (place / "xlahouse-file").touch()
    before = sorted(place.rglob("*"))
    remove_abandoned()
    assert sorted(place.rglob("*")) == before


def test_a_file_system_without_locks_has_a_folder_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS without its lock service says ENOLCK."""

    def refuse(number: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", refuse)
        _made.cache_clear()
        folder = Path(scratch_folder())
        remove_abandoned()
    remove_abandoned()
    assert folder.is_dir()
    _made.cache_clear()
