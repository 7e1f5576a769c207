"""What passes between processes: files by name, what is known of them, and errors."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import fsspec
import polars as pl
import pytest

from tests.ingest.test_one_fate import CHANGES, rewrite
from tests.ingest.traces import all_reduce_module, tpu_trace, write
from xlahouse.capture.errors import (
    LimitError,
    TraceChangedError,
    TraceFormatError,
    XlahouseError,
)
from xlahouse.ingest.events.trace_bytes import identify, open_trace
from xlahouse.ingest.hlo.program import parse_program
from xlahouse.ingest.spread.parcels import computed, pack, result_of, unpack


def passed(value):
    return unpack(pack(value)).value


def local(tmp_path):
    return write(tmp_path / "a.xplane.pb", tpu_trace())


def remote(tmp_path):
    url = f"memory://{tmp_path.name}/a.xplane.pb"
    fsspec.filesystem("memory").pipe_file(url, tpu_trace())
    return url


@pytest.mark.parametrize("place", [local, remote])
def test_bytes_of_a_file_pass_by_its_name(tmp_path, place):
    part = open_trace(identify(place(tmp_path)), by_parts=True)
    bytes(part)  # a small file, or one on another machine, is held once it was read
    raw = pack([part[2:9], part, pl.DataFrame({"a": [1]})])
    assert tpu_trace()[2:9] not in raw
    found = unpack(raw)
    one, whole, frame = found.value
    assert (bytes(one), bytes(whole), frame.rows()) == (tpu_trace()[2:9], tpu_trace(), [(1,)])
    assert len(found.files) == 1
    assert one.file is whole.file is found.files[0]


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_on_its_way_costs_the_result(tmp_path, change):
    path = local(tmp_path)
    part = open_trace(identify(path), by_parts=True)
    raw = pack((part,))
    change(path)
    with pytest.raises((TraceChangedError, FileNotFoundError)):
        result_of(computed(_damage_is_swallowed, raw, None))


def _damage_is_swallowed(_, part):
    """Readers take what cannot be read for damage."""
    try:
        return bytes(part)
    except Exception:
        return b""


def test_a_remote_file_that_changes_on_its_way_costs_the_result(tmp_path):
    url = remote(tmp_path)
    raw = pack((open_trace(identify(url), by_parts=True),))
    fsspec.filesystem("memory").pipe_file(url, tpu_trace(1))
    with pytest.raises(TraceChangedError):
        result_of(computed(_damage_is_swallowed, raw, None))


def test_another_machine_has_marks_of_its_own(tmp_path):
    path = local(tmp_path)
    source = identify(path)
    elsewhere = replace(source, mark=replace(source.mark, device=source.mark.device + 1))
    assert bytes(passed(open_trace(elsewhere, by_parts=True))) == tpu_trace()
    rewrite(path)
    with pytest.raises(TraceChangedError):
        bytes(passed(open_trace(elsewhere, by_parts=True)))


def test_a_program_passes_without_what_was_worked_out(tmp_path):
    program = parse_program(all_reduce_module().serialize(), 77, "jit_f(77)")
    raw = pack(program)
    assert len(program.by_id) == 2
    assert pack(program) == raw
    found = unpack(raw).value
    assert found == program
    assert found.by_id.keys() == program.by_id.keys()


@pytest.mark.parametrize(
    "error",
    [
        TraceFormatError("a", "it is not a trace", 12),
        LimitError("a", "too many"),
        TraceChangedError("a"),
        OSError(errno.ENOSPC, "no space", "a"),
        ValueError("b"),
    ],
)
def test_errors_pass_as_they_are(error):
    found = passed(error)
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))
    assert getattr(found, "errno", None) == getattr(error, "errno", None)
    with pytest.raises(type(error)):
        result_of(pack((None, error)))


class TwoWordsError(Exception):
    def __init__(self, one, other):
        super().__init__(f"{one} {other}")


def _fail(_):
    raise TwoWordsError("no", "luck")


def test_an_error_that_cannot_pass_is_told_by_its_words():
    with pytest.raises(XlahouseError, match=r"^TwoWordsError: no luck$"):
        result_of(computed(_fail, pack(()), None))


def test_a_view_of_bytes_is_its_bytes():
    assert passed([memoryview(b"0123")[1:3]]) == [b"12"]
    assert passed(Path("a")) == Path("a")
