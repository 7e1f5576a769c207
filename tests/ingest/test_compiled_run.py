"""Compiled programs as a run: devices at their chips, programs, transfers of a step, and no times."""

from __future__ import annotations

import gzip

import polars as pl
import pytest

from tests.chips import COORDS, LISTED
from tests.ingest.build import ModuleBuilder, shape
from tests.ingest.compiled.test_buffers import COMPILED
from tests.ingest.compiled_build import (
    FACTS_OF_ALL,
    counted_loop,
    decode,
    prefill,
    write_compiled,
)
from tests.ingest.traces import rows, tpu_trace, write
from xlahouse.capture.compiled_facts import ChipPlace, Compiled, CompiledRun
from xlahouse.capture.errors import XlahouseError
from xlahouse.ingest.compiled_run import Said
from xlahouse.ingest.discover import find_runs
from xlahouse.ingest.run import IngestError, ingest_paths
from xlahouse.ingest.schema import TABLES


def run_of(root):
    """The only row of runs."""
    (file,) = root.glob("tables/runs/*.parquet")
    return pl.read_parquet(file).row(0, named=True)


TIMED = [table.name for table in TABLES if any("_ps" in c.name for c in table.columns)]


@pytest.fixture
def wh(tmp_path):
    """A warehouse with a small compiled run."""
    write_compiled(tmp_path / "traces" / "m" / "dp2.tp2")
    ingest_paths([str(tmp_path / "traces")], str(tmp_path / "wh"))
    return tmp_path / "wh"


def test_its_row_says_that_it_was_compiled(wh):
    run = run_of(wh)
    assert (run["name"], run["source"], run["status"]) == ("made.compiled", "compiled", "complete")
    assert (run["device_kind"], run["device_count"], run["expected_device_count"]) == (
        "TPU v6 lite",
        0,
        4,
    )
    assert run["host_count"] == 0
    assert run["duration_ps"] is None


def test_nothing_is_missing_and_nothing_has_a_time(wh):
    """Neither devices, nor hosts, nor device events are expected of it."""
    for table in (*TIMED, "issues"):
        assert table == "runs" or not list(wh.glob(f"tables/{table}/*/*.parquet")), table


def test_devices_stand_at_their_chips(wh):
    """The topology lists 0, 2, 1, 3; ids count."""
    devices = rows(wh, "devices").sort("device_id")
    assert devices["coords"].to_list() == [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]
    assert devices["logical_id"].to_list() == [0, 1, 2, 3]
    assert set(devices["traced"]) == {False}
    assert set(devices["kind"]) == {"TPU v6 lite"}
    assert set(devices["inferred"]) == {False}


def test_all_devices_of_an_8x8_slice_stand_at_their_chips():
    """By place in the list 48 of the 64 would not."""
    listed = [ChipPlace(number, COORDS[number], 0, 0) for number in LISTED]
    program = Compiled(**FACTS_OF_ALL, devices=listed)
    run = CompiledRun(
        key="k",
        topology="v6e:8x8",
        chip_config="",
        flags="",
        compiler={},
        programs={"decode": program},
    )
    assert Said(run, {}).coords == COORDS


def test_programs_have_what_the_compiler_says(wh):
    """Both modules have one name and one id in their HLO; as programs they differ."""
    programs = rows(wh, "programs").sort("step")
    assert programs["phase"].to_list() == ["prefill", "decode"]
    assert programs["program_id"].n_unique() == 2
    assert programs.select(
        "module", "topology", "compiler", "flags", "source", "code_bytes", "argument_bytes",
        "output_bytes", "alias_bytes", "temp_bytes", "peak_bytes",
    ).unique().rows() == [
        ("IrToHlo.1", "v6e:2x2", "jax 0.7.1, libtpu 0.0.21", "--a=b", "compiled", 7, 1000, 300, 200,
         50, 1100),
    ]  # fmt: skip


def test_transfers_count_by_the_rounds_of_their_loop(wh):
    """f32[64] is 256 bytes. The loop counts 1, 3, 5, 7. Device 0 sends in the permute, 1 receives, and 2
    and 3 are in no pair; the fusion is one transfer, with the fusion's scope."""
    found = rows(wh, "program_collectives").sort("step", "op", "device_id")
    columns = (
        "phase",
        "op",
        "device_id",
        "group_index",
        "group_size",
        "payload_bytes",
        "executions",
    )
    assert found.select(columns).rows() == [
        ("prefill", "ar", 0, 0, 2, 256, 4),
        ("prefill", "ar", 1, 0, 2, 256, 4),
        ("prefill", "ar", 2, 1, 2, 256, 4),
        ("prefill", "ar", 3, 1, 2, 256, 4),
        ("prefill", "cp", 0, 0, 2, 256, 1),
        ("prefill", "cp", 1, 0, 2, 0, 1),
        ("prefill", "cp", 2, None, None, 0, 1),
        ("prefill", "cp", 3, None, None, 0, 1),
        *(("decode", "fusion.1", device, 0, 4, 256, 1) for device in range(4)),
    ]
    last = found.row(-1, named=True)
    assert (last["kind"], last["dtype"], last["is_async"]) == ("all-reduce", "f32", False)
    assert (last["layer"], last["component"], last["step"]) == (3, "mlp", 1)


def branching():
    """An all-reduce in a branch, and one in a loop that goes on for as long as its input says."""
    built = ModuleBuilder("m", devices=[[0], [1], [2], [3]])
    entry, loop = counted_loop(built, "inner", 0, 8, 1, direction="GT")
    built.add(entry, "result", "get-tuple-element", shape("f32", 64), loop, tuple_index=1)
    other = built.computation("other")
    built.add(other, "p", "parameter", shape("f32", 64))
    main = built.computation("main")
    x = built.add(main, "x", "parameter", shape("f32", 64))
    which = built.add(main, "which", "parameter", shape("pred"))
    built.add(main, "if", "conditional", shape("f32", 64), which, x, x, calls=[entry, other])
    return built.serialize()


def test_how_often_a_branch_runs_is_not_known(tmp_path):
    """Four devices each have one transfer of unknown number, with a finding."""
    write_compiled(tmp_path / "t", {"prefill": prefill(), "decode": branching()})
    ingest_paths([str(tmp_path / "t")], str(tmp_path / "wh"))
    decoded = rows(tmp_path / "wh", "program_collectives").filter(phase="decode")
    assert decoded["executions"].to_list() == [None] * 4
    issues = rows(tmp_path / "wh", "issues")
    assert issues.select("code", "count").rows() == [("executions_unknown", 4)]


def test_a_real_scan_over_six_layers_runs_its_all_reduce_six_times(tmp_path):
    """Truth: the CPU's compiler notes known_trip_count 6 for the same program, the TPU's notes nothing.
    The mean over f32[...] has one all-gather after the loop."""
    real = gzip.decompress((COMPILED / "scan_tp4_v6e.libtpu0.0.42.1.hlo.pb.gz").read_bytes())
    write_compiled(tmp_path / "t", {"prefill": prefill(), "decode": real})
    ingest_paths([str(tmp_path / "t")], str(tmp_path / "wh"))
    found = rows(tmp_path / "wh", "program_collectives").filter(phase="decode", device_id=0)
    assert sorted(found.select("kind", "executions").rows()) == [
        ("all-gather", 1),
        ("all-reduce", 6),
    ]
    ran = rows(tmp_path / "wh", "instructions").filter(pl.col("op") == "psum.9")
    assert ran["executions"].to_list() == [6]


def test_the_same_folder_twice_is_one_run(tmp_path, wh):
    (again,) = ingest_paths([str(tmp_path / "traces")], str(wh))
    assert again.unchanged
    assert run_of(wh)["name"] == "made.compiled"


def test_a_folder_without_its_last_file_is_no_run(tmp_path):
    folder = write_compiled(tmp_path / "t")
    (folder / "compiled.json").unlink()
    with pytest.raises(XlahouseError, match="a compiled program, not a trace"):
        find_runs(str(tmp_path / "t"))


def test_captures_and_compiled_runs_are_found_together(tmp_path):
    write_compiled(tmp_path / "t", stamp="2")
    write(tmp_path / "t" / "trace_1.trace" / "a.xplane.pb", tpu_trace())
    assert [run.name for run in find_runs(str(tmp_path / "t")).runs] == [
        "trace_1.trace",
        "compiled_2",
    ]


def test_a_damaged_program_fails_alone(tmp_path):
    write_compiled(tmp_path / "t", {"prefill": b"\xff\xff", "decode": decode()})
    (result,) = ingest_paths([str(tmp_path / "t")], str(tmp_path / "wh"))
    assert result.status == "partial"
    issues = rows(tmp_path / "wh", "issues").row(0, named=True)
    assert (issues["code"], "the HLO of prefill is damaged" in issues["message"]) == (
        "unreadable_file",
        True,
    )


@pytest.mark.parametrize("programs", [{"prefill": b"", "decode": b""}, {}])
def test_a_run_without_programs_is_refused(tmp_path, programs):
    write_compiled(tmp_path / "t", programs)
    with pytest.raises(IngestError, match="no program"):
        ingest_paths([str(tmp_path / "t")], str(tmp_path / "wh"))


def test_unreadable_facts_are_named(tmp_path):
    folder = write_compiled(tmp_path / "t")
    (folder / "compiled.json").write_text("{}")
    with pytest.raises(IngestError, match=r"compiled\.json: .*compile again"):
        ingest_paths([str(tmp_path / "t")], str(tmp_path / "wh"))
