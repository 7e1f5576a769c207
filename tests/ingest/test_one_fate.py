"""A trace that changes while it is read, or ends the process that reads it, costs its own run alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ingest.traces import rows, tpu_trace, write
from tests.layers import first_few
from xlahouse.capture.errors import TraceChangedError
from xlahouse.ingest import one_run, read_files
from xlahouse.ingest.events import trace_bytes
from xlahouse.ingest.events.trace_bytes import contents, identify, joined, open_trace
from xlahouse.ingest.run import IngestError, ingest_paths
from xlahouse.ingest.xplane import wire

CHANGED = (
    "it changed while it was read: it was written to, cut short or replaced; ingest it again once"
)


def cut(path):
    os.truncate(path, os.path.getsize(path) // 2)


def grow(path):
    with open(path, "ab") as file:
        file.write(tpu_trace(1))


def rewrite(path):
    """Other bytes of the same number, and the times of before."""
    before = os.stat(path)
    Path(path).write_bytes(tpu_trace(1))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(path):
    write(Path(f"{path}.new"), tpu_trace(1))
    os.replace(f"{path}.new", path)


CHANGES = [cut, grow, rewrite, replace, os.unlink]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("by_parts", [True, False])
@pytest.mark.parametrize("small", [0, 1 << 18])
def test_what_is_read_is_what_was_hashed(tmp_path, monkeypatch, change, by_parts, small):
    monkeypatch.setattr(trace_bytes, "SMALL_FILE", small)
    path = write(tmp_path / "a.xplane.pb", tpu_trace())
    source = identify(path)
    part = open_trace(source, by_parts)
    assert bytes(part) == tpu_trace()
    assert bytes(part[4:9]) == tpu_trace()[4:9]
    change(path)
    with pytest.raises((TraceChangedError, FileNotFoundError)):
        bytes(open_trace(source, by_parts))
    if by_parts:
        with pytest.raises((TraceChangedError, FileNotFoundError)):
            part.file.check()


def test_a_write_within_a_tick_of_the_clock_shows_in_the_bytes(tmp_path, monkeypatch):
    path = write(tmp_path / "a.xplane.pb", tpu_trace())
    source = identify(path)
    assert source.recent
    monkeypatch.setattr(trace_bytes.Mark, "of", lambda file: source.mark)  # which a tick may keep
    part = open_trace(source, by_parts=True)
    part.file.check()
    rewrite(path)
    with pytest.raises(TraceChangedError):
        part.file.check()


def test_a_file_that_grows_while_it_is_hashed_has_no_name(tmp_path, monkeypatch):
    path = write(tmp_path / "a.xplane.pb", tpu_trace())
    marks = iter([trace_bytes.Mark(1, 1, len(tpu_trace()), 1, time) for time in (1, 2)])
    monkeypatch.setattr(trace_bytes.Mark, "of", lambda file: next(marks))
    with pytest.raises(TraceChangedError):
        identify(path)


@pytest.mark.parametrize("small", [0, 1 << 18])
def test_parts_are_joined_with_bytes_in_memory(tmp_path, monkeypatch, small):
    monkeypatch.setattr(trace_bytes, "SMALL_FILE", small)
    part = open_trace(identify(write(tmp_path / "a", b"0123456789")), by_parts=True)
    assert joined([part[2:4], b"x", memoryview(b"yz"), part[9:], part[3:3]]) == b"23xyz9"
    assert contents(part[2:][1:3]) == b"34"


@pytest.mark.parametrize("change", first_few(CHANGES, 3))
@pytest.mark.parametrize(
    ("module", "moment"), [(read_files, "read_trace"), (one_run, "write_tables")]
)
def test_a_run_whose_file_changes_is_not_written(tmp_path, monkeypatch, change, module, moment):
    """Before its planes are read, and before its events are, with an undamaged neighbour on each side."""
    paths = [write(tmp_path / f"{n}.xplane.pb", tpu_trace(n)) for n in (2, 0, 3)]
    then, calls = getattr(module, moment), []

    def change_and_go_on(*given):
        calls.append(moment)
        if len(calls) == 2:
            change(paths[1])
        return then(*given)

    monkeypatch.setattr(module, moment, change_and_go_on)
    root = str(tmp_path / "wh")
    with pytest.raises(IngestError) as error:
        ingest_paths(paths, root)
    (line,) = error.value.problems
    gone = "0: No such file or directory" if change is os.unlink else f"{paths[1]}: {CHANGED}"
    assert line.startswith(gone)
    assert len(error.value.results) == 2
    assert sorted(rows(root, "ops")["device_id"]) == [2, 3]
    write(Path(paths[1]), tpu_trace())
    (result,) = ingest_paths(paths[1:2], root)
    assert not result.unchanged
    assert sorted(rows(root, "ops")["device_id"]) == [0, 2, 3]


# Processes that are spawned import the script too, so that what it replaces is replaced in workers.
SCRIPT = """
import json, os, signal, sys
from functools import partial
from xlahouse.ingest import read_files
from xlahouse.ingest.run import IngestError, each_in_workers, ingest_paths

root, workers, *paths = sys.argv[1:]
read = read_files.read_trace

def read_or_die(raw, path, *rest):
    name = os.path.basename(path)
    if name.startswith("cut"):
        os.truncate(path, os.path.getsize(path) // 2)
    if name.startswith("dies") and not os.path.exists(path + ".died"):
        if name.startswith("dies_once"):
            open(path + ".died", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return read(raw, path, *rest)

read_files.read_trace = read_or_die
if __name__ == "__main__":
    said = []
    each = partial(each_in_workers, on_event=said.append)
    try:
        ingest_paths(paths, root, workers=int(workers), on_event=said.append, each=each)
    except IngestError as error:
        names = [result.name for result in error.results]
        print(json.dumps({"problems": error.problems, "names": names, "said": said}))
"""


@pytest.mark.verify
@pytest.mark.parametrize("workers", [2, 1])
def test_a_worker_that_dies_costs_its_run_alone_and_that_is_tried_again(tmp_path, workers):
    names = ["a", "dies", "cut", "dies_once", "b"]
    paths = [write(tmp_path / f"{name}.xplane.pb", tpu_trace(n)) for n, name in enumerate(names)]
    script, root = write(tmp_path / "script.py", SCRIPT.encode()), tmp_path / "wh"
    command = [sys.executable, script, str(root), str(workers), *paths]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
    told = json.loads(ran.stdout)
    died = "the worker process that read it died"
    assert told["names"] == ["a", "b", "dies_once"]
    assert told["problems"] == [
        f"{paths[2]}: {CHANGED} nothing writes to it",
        f"dies: {died} twice (killed, as when memory runs out), the second time alone; nothing of this run "
        f"is in the warehouse; its files are {paths[1]}",
    ]
    assert sorted(line for line in told["said"] if died in line) == [
        f"{name}: {died} (killed, as when memory runs out); it is tried once more, alone, after all others"
        for name in ("dies", "dies_once")
    ]
    assert sorted(rows(root, "ops")["device_id"]) == [0, 3, 4]


@pytest.mark.verify
def test_a_worker_that_cannot_start_is_one_line(tmp_path):
    """A script without the guard begins its ingest again in each worker."""
    paths = [write(tmp_path / f"{n}.xplane.pb", tpu_trace(n)) for n in (0, 1)]
    lines = SCRIPT.replace('if __name__ == "__main__":', "if True:").encode()
    command = [sys.executable, write(tmp_path / "script.py", lines), str(tmp_path / "wh"), "2"]
    ran = subprocess.run([*command, *paths], capture_output=True, text=True, env=os.environ)
    assert ran.returncode == 1
    assert "a worker process ended before it began (exit code 1); a script needs" in ran.stderr


@pytest.mark.parametrize("window", [20, 21, 33, 1 << 14])
@pytest.mark.parametrize("cut_at", [None, -1, 40])
def test_fields_are_the_same_wherever_a_window_of_the_file_ends(
    tmp_path, monkeypatch, window, cut_at
):
    raw = tpu_trace()[:cut_at]
    monkeypatch.setattr(wire, "_WINDOW", window)
    part = open_trace(identify(write(tmp_path / "a", raw)), by_parts=True)
    places = [(n, v if isinstance(v, int) else bytes(v), at) for n, v, at in wire._places(part)]
    assert places == [
        (n, v if isinstance(v, int) else bytes(v), at) for n, v, at in wire._places(raw)
    ]
    for plane in (bytes(value) for _, value, _ in places if not isinstance(value, int)):
        source = open_trace(identify(write(tmp_path / "plane", plane)), by_parts=True)
        assert wire.plane_name(source) == wire.plane_name(plane)
        of_file, of_bytes = wire.split_plane(source), wire.split_plane(plane)
        assert ([*map(bytes, of_file[0])], of_file[1]) == ([*map(bytes, of_bytes[0])], of_bytes[1])
        assert [*map(wire.has_events, of_file[0])] == [*map(wire.has_events, of_bytes[0])]
