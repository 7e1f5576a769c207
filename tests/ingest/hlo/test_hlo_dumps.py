from __future__ import annotations

import json
import re

import polars as pl
import pytest

from tests.ingest.build import PlaneBuilder, space
from tests.ingest.traces import all_reduce_module, rows, tpu_trace, write
from tests.samples import sample
from xlahouse.capture.errors import XlahouseError
from xlahouse.ingest.hlo.dumps import list_dumps, match_dumps
from xlahouse.ingest.hlo.module_text import read_module_text
from xlahouse.ingest.hlo.program import instruction_rows
from xlahouse.ingest.run import ingest_paths

TEXT = """HloModule jit_f, is_scheduled=true, num_partitions=2

ENTRY %main (x: f32[256]) -> f32[256] {
  %x = f32[256]{0} parameter(0)
  ROOT %all-reduce.1 = f32[256]{0} all-reduce(%x), channel_id=1, replica_groups=[1,2]<=[2], use_global_device_ids=true
}
"""  # noqa: E501


def proto(name="jit_f", number=0):
    """The all-reduce of tests.ingest.traces.tpu_trace, in devices 1 and 0 for partitions 0 and 1."""
    module = all_reduce_module(name, devices=[[1], [0]])
    module.module.id = number
    return module.serialize()


def ingest(tmp_path, trace=None, **options):
    path = write(tmp_path / "traces" / "host0.xplane.pb", trace or tpu_trace(hlo=False))
    (result,) = ingest_paths([path], str(tmp_path / "wh"), **options)
    return result


def collective(tmp_path):
    (row,) = rows(tmp_path / "wh", "collectives").to_dicts()
    return row["kind"], row["payload_bytes"], row["group_size"]


def codes(tmp_path):
    return dict(rows(tmp_path / "wh", "issues").select("code", "count").rows())


def test_without_hlo_the_names_of_ops_tell_what_they_can(tmp_path):
    """The instruction text of the trace has a shape, but neither a channel nor groups."""
    ingest(tmp_path)
    assert collective(tmp_path) == ("all-reduce", 1024, None)
    found = codes(tmp_path)
    assert found["no_hlo"] == 1
    assert found["collective_without_group"] == 1
    assert "collective_without_payload" not in found


def test_groups_in_a_name_are_taken(tmp_path):
    plane = PlaneBuilder("/device:TPU:0", core_details=b"\x28\x00\x30\x00")
    plane.event(plane.line("XLA Modules"), "jit_f(77)", 1000, 5000)
    text = (
        "%psum.1 = f32[256]{0} all-reduce(f32[256]{0} %x), channel_id=1, replica_groups=[2,2]<=[4], "
        "use_global_device_ids=true, to_apply=%add"
    )
    line = plane.line("XLA Ops")
    plane.event(line, text, 2000, 1000, "psum.1", {"program_id": 77})
    fused = "%slice-start.2 = ((f32[8]), f32[2], s32[]) async-start(f32[8] %y), calls=%gone"
    plane.event(line, fused, 3100, 10, "slice-start.2", {"program_id": 77})
    done = "%slice-done.2 = f32[2] async-done(((f32[8]), f32[2], s32[]) %slice-start.2)"
    plane.event(line, done, 3200, 10, "slice-done.2", {"program_id": 77})
    ingest(tmp_path, space(plane.plane))
    assert collective(tmp_path) == ("all-reduce", 1024, 2)
    ops = rows(tmp_path / "wh", "ops").sort("start_ps")
    assert ops["category"].to_list() == ["collective", "copy", "copy"]
    assert codes(tmp_path)["device_assignment_unknown"] == 1
    assert rows(tmp_path / "wh", "replica_groups")["logical_id"].to_list() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("module_0001.jit_f.after_optimizations.txt", TEXT.encode()),
        ("module_0001.jit_f.after_optimizations.hlo.pb", proto()),
        ("jit_f(77).hlo_proto.pb", proto("other")),
        ("deep/er/module_0001.jit_f.cl_1.after_optimizations.txt", TEXT.encode()),
    ],
)
def test_a_dump_gives_what_the_trace_lacks(tmp_path, name, contents):
    write(tmp_path / "dump" / name, contents)
    ingest(tmp_path, hlo_dump=str(tmp_path / "dump"))
    assert collective(tmp_path) == ("all-reduce", 1024, 2)
    assert "no_hlo" not in codes(tmp_path)


PACKED = """HloModule jit_f, num_partitions=2

ENTRY %main (x: s4[7,128]) -> s4[7,128] {
  %x = s4[7,128]{1,0:T(8,128)(8,1)E(4)S(1)} parameter(0)
  %y = f4e2m1fn[33,64]{0,1:T(8,128)E(4)} custom-call(%x), custom_call_target="f"
  %z = u2[5]{0:E(2)} custom-call(%y), custom_call_target="g"
  ROOT %all-reduce.1 = s4[7,128]{1,0:T(8,128)(8,1)E(4)S(5)} all-reduce(%x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true
}
"""  # noqa: E501


def test_a_dump_of_packed_and_tiled_values(tmp_path):
    """7 x 128 of 4 bits: 448 bytes, in tiles of 8 x 128 512; 33 x 64 lie as 64 x 33, in tiles 64 x 128."""
    write(tmp_path / "dump/module_0001.jit_f.after_optimizations.txt", PACKED.encode())
    plane = PlaneBuilder("/device:TPU:0", core_details=b"\x28\x00\x30\x00")
    plane.event(plane.line("XLA Modules"), "jit_f(77)", 1000, 5000)
    plane.event(plane.line("XLA Ops"), "all-reduce.1", 2000, 1000, meta={"program_id": 77})
    ingest(tmp_path, space(plane.plane), hlo_dump=str(tmp_path / "dump"))
    columns = (
        "op",
        "dtype",
        "dims",
        "layout",
        "tiling",
        "memory_space",
        "logical_bytes",
        "padded_bytes",
    )
    assert rows(tmp_path / "wh", "instructions").select(columns).sort("op").rows() == [
        ("all-reduce.1", "s4", [7, 128], [1, 0], "(8,128)(8,1)", 5, 448, 512),
        ("x", "s4", [7, 128], [1, 0], "(8,128)(8,1)", 1, 448, 512),
        ("y", "f4e2m1fn", [33, 64], [0, 1], "(8,128)", 0, 1056, 4096),
        ("z", "u2", [5], [0], None, 0, 2, 2),
    ]
    assert collective(tmp_path) == ("all-reduce", 448, 2)
    assert "damaged_hlo" not in codes(tmp_path)


@pytest.mark.parametrize(
    ("name", "is_cut"),
    [("maxtext_deepseek3", 1), ("maxtext_qwen3_1.7b", 1), ("torch_xla_llama2_tp4_pp2", 0)],
)
def test_a_compilers_own_dump_becomes_an_instruction_a_line(tmp_path, name, is_cut):
    """Of two of them, the samples hold the first 2,000 lines, which end within a computation."""
    raw = sample(f"hlo/{name}.hlo.txt").read_bytes()
    write(tmp_path / "dump/jit_f(77).txt", raw)
    ingest(tmp_path, hlo_dump=str(tmp_path / "dump"))
    found = rows(tmp_path / "wh", "instructions")
    lines = re.findall(rb"(?m)^ +(?:ROOT )?%?[\w.-]+ = ", raw)
    assert found.height == len(lines)
    assert found.filter(dtype="unknown").is_empty()
    assert codes(tmp_path).get("damaged_hlo", 0) == is_cut


def test_a_dump_beside_the_trace_is_found(tmp_path):
    write(tmp_path / "traces" / "jit_f(77).hlo_proto.pb", proto())
    ingest(tmp_path)
    assert collective(tmp_path) == ("all-reduce", 1024, 2)


def test_a_dump_found_later_replaces_the_run(tmp_path):
    first = ingest(tmp_path)
    dump = write(tmp_path / "dump" / "module_0001.jit_f.after_optimizations.txt", TEXT.encode())
    again = ingest(tmp_path, hlo_dump=dump)
    assert (again.run_id, again.unchanged) == (first.run_id, False)
    (run,) = runs(tmp_path)
    (path,) = (file["path"] for file in run["files"] if file["table"] == "collectives")
    assert pl.read_parquet(tmp_path / "wh" / path)["group_size"].to_list() == [2]
    assert ingest(tmp_path, hlo_dump=dump).unchanged
    assert ingest(tmp_path).unchanged  # without the option, what is there stays
    assert set(json.loads(run["options"])) == {"hlo_dump"}


def test_a_dump_that_is_written_anew_with_as_many_bytes_replaces_the_run(tmp_path):
    dump = tmp_path / "dump" / "module_0001.jit_f.after_optimizations.txt"
    write(dump, TEXT.encode())
    ingest(tmp_path, hlo_dump=str(dump))
    write(dump, TEXT.replace("[1,2]<=[2]", "[2,1]<=[2]").encode())
    assert not ingest(tmp_path, hlo_dump=str(dump)).unchanged


def runs(tmp_path):
    (file,) = (tmp_path / "wh" / "tables" / "runs").glob("*.parquet")
    return pl.read_parquet(file).to_dicts()


def test_the_hlo_of_the_trace_wins(tmp_path):
    wrong = TEXT.replace("f32[256]", "f32[4096]").encode()
    write(tmp_path / "dump" / "module_0001.jit_f.after_optimizations.txt", wrong)
    ingest(tmp_path, tpu_trace(), hlo_dump=str(tmp_path / "dump"))
    assert collective(tmp_path) == ("all-reduce", 1024, 2)


def test_names_that_do_not_tell_programs_apart_are_an_issue(tmp_path):
    """Two compilations that differ only in their groups, which no name of an op shows."""
    for number, groups in ((1, "[1,2]<=[2]"), (2, "[2,1]<=[2]")):
        path = tmp_path / "dump" / f"module_000{number}.jit_f.after_optimizations.txt"
        write(path, TEXT.replace("[1,2]<=[2]", groups).encode())
    ingest(tmp_path, hlo_dump=str(tmp_path / "dump"))
    assert collective(tmp_path)[2] is None
    assert codes(tmp_path)["hlo_dump_ambiguous"] == 1


def test_a_dump_that_another_process_wrote_again_is_the_same(tmp_path):
    for number in (1, 2):
        path = tmp_path / "dump" / f"module_000{number}.jit_f.after_optimizations.txt"
        write(path, TEXT.encode())
    ingest(tmp_path, hlo_dump=str(tmp_path / "dump"))
    assert collective(tmp_path) == ("all-reduce", 1024, 2)


@pytest.mark.parametrize("own", [1, 2])
def test_names_and_shapes_of_ops_tell_dumps_of_one_name_apart(tmp_path, own):
    for number in (1, 2):
        text = TEXT if number == own else TEXT.replace("f32[256]", "f32[512]")
        path = tmp_path / "dump" / f"module_000{number}.jit_f.after_optimizations.txt"
        write(path, text.encode())
    ingest(tmp_path, hlo_dump=str(tmp_path / "dump"))
    assert collective(tmp_path) == ("all-reduce", 1024, 2)


@pytest.mark.parametrize(("old", "new"), [("f32[256]", "f32[512]"), ("reduce.1", "reduce.2")])
def test_a_dump_of_the_same_name_that_contradicts_the_trace_is_not_used(tmp_path, old, new):
    path = tmp_path / "dump/module_0001.jit_f.after_optimizations.txt"
    write(path, TEXT.replace(old, new).encode())
    ingest(tmp_path, hlo_dump=str(tmp_path / "dump"))
    assert collective(tmp_path) == ("all-reduce", 1024, None)
    assert codes(tmp_path)["hlo_dump_ambiguous"] == 1


@pytest.mark.parametrize("dumped", [("a",), ("b",), ("a", "b")])
def test_a_dump_of_a_program_that_the_trace_holds_is_of_no_other(tmp_path, dumped):
    """Two programs SyncTensorsGraph; the trace has the HLO of the first, and no instruction texts."""
    texts = {"a": TEXT, "b": TEXT.replace("f32[256]", "f32[512]")}
    for number, name in enumerate(dumped):
        path = tmp_path / f"module_000{number}.jit_f.after_optimizations.txt"
        write(path, texts[name].encode())
    held = read_module_text(texts["a"], 5, "a").program
    programs, issues = match_dumps(list_dumps(str(tmp_path)), {6: "jit_f"}, "run", {5: held})
    assert [program.program_id for program in programs] == ([6] if "b" in dumped else [])
    shown = {str(row["shape"]) for program in programs for row in instruction_rows(program)}
    assert shown == ({"f32[512]{0}"} if "b" in dumped else set())
    assert [issue.code for issue in issues] == ([] if "b" in dumped else ["hlo_dump_ambiguous"])


def test_a_dump_of_a_function_whose_name_looks_like_a_stage(tmp_path):
    name = "module_0001.jit_before_step.tpu_after_optimizations.txt"
    write(tmp_path / name, TEXT.replace("jit_f", "jit_before_step").encode())
    later = "module_0001.jit_before_step.cpu_after_optimizations_before_buffer_assignment.txt"
    write(tmp_path / later, b"not HLO")
    ((program,), _) = match_dumps(list_dumps(str(tmp_path)), {5: "jit_before_step"}, "run", {})
    assert program.module == "jit_before_step"


def test_what_a_compiler_dumps_besides_is_passed_over(tmp_path):
    for name in (
        "module_0001.jit_f.before_optimizations.txt",
        "module_0001.jit_f.0003.fusion.after_pipeline-start.before_x.txt",
        "module_0001.jit_f.thunk_sequence.txt",
        "module_0001.jit_f.sm_9.0_gpu_after_optimizations-buffer-assignment.txt",
        "readme.md",
    ):
        write(tmp_path / name, b"not HLO")
    write(tmp_path / "module_0001.jit_f.after_optimizations.txt", TEXT.encode())
    programs, issues = match_dumps(list_dumps(str(tmp_path)), {5: "jit_f"}, "run", {})
    assert [(p.program_id, p.module, p.assignment_assumed) for p in programs] == [
        (5, "jit_f", True)
    ]
    assert issues == []


def test_the_proto_of_a_compilation_wins_over_its_text(tmp_path):
    write(tmp_path / "module_0001.jit_f.after_optimizations.txt", TEXT.encode())
    write(tmp_path / "module_0001.jit_f.after_optimizations.hlo.pb", proto())
    ((program,), _) = match_dumps(list_dumps(str(tmp_path)), {5: "jit_f"}, "run", {})
    assert program.assignment.devices == ((1,), (0,))


def test_a_protos_own_id_matches_where_its_name_does(tmp_path):
    write(tmp_path / "a.hlo.pb", proto("jit_f", 5))
    write(tmp_path / "b.hlo.pb", proto("jit_f", 6))
    programs, issues = match_dumps(list_dumps(str(tmp_path)), {5: "jit_f", 6: "jit_f"}, "run", {})
    assert sorted(program.program_id for program in programs) == [5, 6]
    assert issues == []


def test_damaged_dumps_cost_themselves(tmp_path):
    write(tmp_path / "jit_f(77).hlo_proto.pb", b"\xff\xff\xff")
    broken = TEXT.replace("parameter(0)", "parameter(0").encode()
    write(
        tmp_path / "module_0001.jit_g.after_optimizations.txt", broken.replace(b"jit_f", b"jit_g")
    )
    programs, issues = match_dumps(list_dumps(str(tmp_path)), {77: "jit_f", 8: "jit_g"}, "run", {})
    assert [program.program_id for program in programs] == [8]
    assert [(issue.code, issue.count) for issue in issues] == [("damaged_hlo", 1)] * 2


def test_dumps_of_other_programs_are_a_finding(tmp_path):
    """Left unsaid, a wrong folder would look like a trace that has no HLO."""
    write(tmp_path / "dump/module_0001.jit_g.txt", TEXT.replace("jit_f", "jit_g").encode())
    ingest(tmp_path, hlo_dump=str(tmp_path / "dump"))
    said = rows(tmp_path / "wh", "issues").filter(pl.col("code") == "hlo_dump_unused")
    assert said["message"][0].startswith(
        "of 1 HLO dumps, by program id or else the module's name, none"
    )
    assert "(jit_f)" in said["message"][0]


def test_an_empty_folder_of_dumps_is_a_finding_and_a_folder_without_any_beside_a_trace_is_not(
    tmp_path,
):
    (tmp_path / "dump").mkdir()
    ingest(tmp_path, hlo_dump=str(tmp_path / "dump"))
    said = rows(tmp_path / "wh", "issues").filter(pl.col("code") == "hlo_dump_unused")
    assert said["message"][0].startswith("--hlo-dump names no dump of optimized HLO")
    other = tmp_path / "other"
    ingest(other)
    assert "hlo_dump_unused" not in codes(other)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(XlahouseError, match="gone: no such file or folder"):
        ingest(tmp_path, hlo_dump=str(tmp_path / "gone"))


def test_programs_of_which_nothing_but_their_names_is_known_have_no_hlo(tmp_path):
    """Two ran, and their ops have only names, from which no instruction can be read."""
    plane = PlaneBuilder("/device:TPU:0")
    modules, ops = plane.line("XLA Modules"), plane.line("XLA Ops")
    for number, start in ((7, 1000), (8, 3000)):
        plane.event(modules, f"jit_f({number})", start, 1000)
        plane.event(ops, f"fusion.{number}", start, 500, meta={"program_id": number})
    path = tmp_path / "h.xplane.pb"
    path.write_bytes(space(plane.plane))
    ingest_paths([str(path)], str(tmp_path / "wh"))
    (issue,) = rows(tmp_path / "wh", "issues").filter(pl.col("code") == "no_hlo").to_dicts()
    assert issue["count"] == 2
