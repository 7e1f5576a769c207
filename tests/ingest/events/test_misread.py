"""A file that is not a trace is called what it is, with what to do about it."""

from __future__ import annotations

import base64
import gzip
import io
import re
import tarfile
import zipfile

import pytest

from tests.ingest.build import ModuleBuilder, PlaneBuilder, shape, space
from tests.ingest.traces import rows, tpu_trace, write
from tests.samples import sample
from xlahouse.ingest.chrome.files import JSON as JSON_NAME
from xlahouse.ingest.discover import find_runs
from xlahouse.ingest.events.misread import is_program_proto
from xlahouse.ingest.run import IngestError, ingest_paths


def binary():
    """An xplane of 300 ops, in which bytes of every kind occur."""
    plane = PlaneBuilder("/device:TPU:0", core_details=b"")
    line = plane.line("XLA Ops")
    for number in range(300):
        plane.event(line, f"%a.{number} = f32[] add()", number * 1_234_567, 10 + number)
    return space(plane.plane)


JSON = b'{"traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}, {}]}'


def zipped(raw):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.xplane.pb", raw)
    return out.getvalue()


def tarred(raw):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        member = tarfile.TarInfo("a.xplane.pb")
        member.size = len(raw)
        archive.addfile(member, io.BytesIO(raw))
    return out.getvalue()


def program(bare=False):
    """An HloProto, or the HloModuleProto in it."""
    module = ModuleBuilder("jit_f")
    module.add(module.computation("main"), "x", "parameter", shape("f32", 8))
    return module.module.SerializeToString() if bare else module.serialize()


# What became of a file, and what is said of it.
FATES = {
    "replaced": (lambda raw: raw.decode("utf-8", "replace").encode(), r"U\+FFFD replaces bytes"),
    "latin1": (lambda raw: raw.decode("latin-1").encode("utf-8"), r"as Latin-1 and .*iconv"),
    "crlf": (lambda raw: raw.replace(b"\n", b"\r\n"), r"line ends to CR LF"),
    "ascii": (lambda raw: raw.decode("ascii", "ignore").encode(), r"beyond ASCII are gone"),
    "marks": (lambda raw: raw.decode("ascii", "replace").replace("\ufffd", "?").encode(), "gone"),
    "base64": (base64.b64encode, r"base64 text; decode it"),
    "zip": (zipped, r"zip archive; unpack it"),
    "tar": (tarred, r"tar archive; unpack it"),
    "twice": (lambda raw: gzip.compress(gzip.compress(raw)), r"packed twice"),
    "zeros": (lambda raw: bytes(len(raw)), r"only zeros"),
    "empty": (lambda raw: b"", r"empty: the profiler wrote nothing"),
    "empty gzip": (lambda raw: gzip.compress(b""), r"it is an empty archive"),
    "pointer": (lambda raw: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "lfs pull"),
    "page": (lambda raw: b"<!DOCTYPE html>\n<html><title>Sign in</title></html>", r"a web page"),
    "hlo": (lambda raw: b"HloModule jit_f\n\nENTRY %main () -> () {\n}\n", r"--hlo-dump"),
    "program": (lambda raw: program(), r"HLO proto.*--hlo-dump.*end in \.hlo_proto\.pb"),
    "module": (lambda raw: program(bare=True), r"HLO proto.*--hlo-dump"),
    "json": (lambda raw: JSON, r"JSON.*rename it to end in \.trace\.json"),
    "riegeli": (lambda raw: b"\x83\xafp\xd1\r\x88J?" + bytes(56), r"a Riegeli file"),
}  # fmt: skip
PACKED = {"twice", "empty gzip"}


def refusal(tmp_path, name, raw):
    path = write(tmp_path / name, raw)
    with pytest.raises(IngestError) as error:
        ingest_paths([path], str(tmp_path / "wh"))
    (problem,) = error.value.problems
    assert problem.startswith(path)
    return problem


@pytest.mark.parametrize("fate", FATES)
def test_an_xplane_that_is_none(tmp_path, fate):
    change, said = FATES[fate]
    problem = refusal(tmp_path, "host0.xplane.pb", change(binary()))
    assert re.search(said, problem), problem


@pytest.mark.parametrize("fate", sorted(FATES.keys() - {"json"} - PACKED))
def test_a_chrome_trace_that_is_none(tmp_path, fate):
    change, said = FATES[fate]
    problem = refusal(tmp_path, "host0.trace.json.gz", change(gzip.compress(binary())))
    assert re.search(said, problem), problem


def test_text_in_utf16_and_an_xplane_under_the_name_of_a_chrome_trace(tmp_path):
    problem = refusal(tmp_path, "a.trace.json", JSON.decode().encode("utf-16"))
    assert "UTF-16; write it as UTF-8" in problem
    assert "rename it to end in .xplane.pb" in refusal(tmp_path, "b.trace.json", tpu_trace())


def test_what_nothing_is_known_of_is_refused_all_the_same(tmp_path):
    assert "not an XSpace protobuf" in refusal(
        tmp_path, "a.xplane.pb", b"\x07" * 3000 + b"\x91\xff"
    )


@pytest.mark.parametrize("fate", ["latin1", "crlf", "ascii"])
def test_the_sample_through_a_text_codec(tmp_path, fate):
    change, said = FATES[fate]
    raw = change(sample("tpu/v6e_4dev_jax_psum_offload.xplane.pb").read_bytes())
    assert re.search(said, refusal(tmp_path, "a.xplane.pb", raw))


def test_a_file_that_is_only_cut_off_was_through_no_codec(tmp_path):
    raw = binary()
    path = write(tmp_path / "a.xplane.pb", raw + space(PlaneBuilder("/device:TPU:1").plane)[:-9])
    ingest_paths([path], str(tmp_path / "wh"))
    assert "truncated" in rows(tmp_path / "wh", "issues")["code"].to_list()
    assert rows(tmp_path / "wh", "ops").height == 300


def test_a_file_that_is_named_as_what_it_is_need_not_be_named_so(tmp_path):
    cut = refusal(tmp_path, "a.xplane.pb", tpu_trace()[:60])
    assert "within its first plane" in cut
    assert "rename it to end" not in cut
    nothing = refusal(tmp_path, "b.trace.json", b'{"traceEvents":[]}')
    assert "no event" in nothing
    assert "rename it to end" not in nothing


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\x1f\x8b" + b"zz" * 30, "its gzip data is damaged"),
        (gzip.compress(b"{}" * 100, mtime=0)[:11], "its gzip data is cut off"),
        (b"\x28\xb5\x2f\xfd" + b"zz" * 30, "its zstd data is damaged or cut off"),
    ],
)
def test_what_is_packed_and_damaged_from_the_start_is_not_said_to_hold_nothing(
    tmp_path, raw, reason
):
    told = refusal(tmp_path, "a.trace.json.gz", raw)
    assert reason in told
    assert "wrote nothing" not in told


OTHER_NAMES = ("host0.json", "host0.json.gz", "host0.pb", "host0.txt")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (tpu_trace, r"an xplane; rename it to end in \.xplane\.pb"),
        (lambda: JSON, r"a Chrome trace; rename it to end in \.trace\.json"),
        (lambda: b"HloModule jit_f\n", r"HLO text.*--hlo-dump.*end in \.hlo"),
        (program, r"HLO proto.*--hlo-dump"),
    ],
)
@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_folder_of_traces_under_other_names_is_told_what_they_are(tmp_path, name, make, said):
    """Each is read by its contents, or one line says what it is."""
    raw = make()
    folder = tmp_path / "t"
    write(folder / name, gzip.compress(raw) if name.endswith(".gz") else raw)
    if raw == JSON and JSON_NAME.search(name):
        assert [run.name for run in find_runs(str(folder)).runs] == ["host0"]
        return
    with pytest.raises(IngestError) as error:
        ingest_paths([str(folder)], str(tmp_path / "wh"))
    (problem,) = error.value.problems
    assert problem.startswith(f"{folder}/{name}: it is")
    assert re.search(said, problem), problem


@pytest.mark.parametrize("name", OTHER_NAMES)
@pytest.mark.parametrize("make", [program, lambda: b"HloModule jit_f\n"])
def test_a_program_alone_is_refused_whatever_its_name(tmp_path, name, make):
    raw = make()
    problem = refusal(tmp_path, name, gzip.compress(raw) if name.endswith(".gz") else raw)
    assert re.search(r"a compiled program.*--hlo-dump", problem), problem


def test_an_xplane_under_the_name_of_json_is_not_left_out_silently(tmp_path):
    write(tmp_path / "t" / "a.xplane.pb", tpu_trace())
    write(tmp_path / "t" / "b.json.gz", gzip.compress(tpu_trace()))
    write(tmp_path / "t" / "c.json", b'{"a": 1}')
    with pytest.raises(IngestError, match=r"b\.json\.gz: it is an xplane; rename it") as error:
        ingest_paths([str(tmp_path / "t")], str(tmp_path / "wh"))
    assert [result.name for result in error.value.results] == ["a"]


def test_an_xplane_is_no_program():
    """Whatever its first plane begins with: the plane's number, its name, or neither."""
    assert not is_program_proto(tpu_trace())
    assert not is_program_proto(b"\n\x09\x08\x01\x12\x05/host")
    assert not is_program_proto(b"\n\x07\x12\x05/host")
    assert not is_program_proto(b"")
