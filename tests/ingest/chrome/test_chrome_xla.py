"""Chrome traces of XLA's profiler: ops, launches, programs and collectives of a TPU; virtual devices."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import polars as pl
import pyarrow as pa
import pytest

from tests.ingest.chrome_build import document, event, named, run_of
from tests.ingest.traces import rows, tpu_trace, write
from tests.samples import sample
from xlahouse.ingest.chrome.read import read_chrome
from xlahouse.ingest.run import ingest_paths

TPU, CPU = "tpu/vllm_qwen3_tp2.trace.json.gz", "cpu/torch_xla_mlp_4dev"
LINES = {
    "t0": "_counters_",
    "t2": "XLA Modules",
    "t3": "XLA Ops",
    "t4": "Async XLA Ops",
    "t6": "XLA TraceMe",
}
REDUCE = "%psum.1 = f32[256]{0} all-reduce(f32[256]{0} %x), replica_groups={{0,1}}, to_apply=%add"


def op(name, ts, dur, text, pid=3, tid=3, **args):
    args = {"hlo_category": "fusion", "long_name": text, "device_offset_ps": str(ts)} | args
    return event(name, ts, dur, pid, tid, args=args)


def tpu_events(pid, number, late=0):
    return [
        *named(pid, f"/device:TPU:{number}", **LINES),
        event("jit_f(77)", 100 + late, 50, pid, 2, args={"run_id": "5"}),
        op("psum.1", 110 + late, 20, REDUCE, pid, hlo_category="all-reduce", bytes_accessed="2048",
           tf_op="jit(f)/model.layers.3.self_attn/psum:", source="/m/model.py:12"),
        op("call.2", 130 + late, 5, "%call.2 = f32[8] custom-call(f32[8] %y)", pid,
           hlo_category="custom-call", model_flops="0", bytes_accessed="0"),
        event("barrier-cores", 105 + late, 4, pid, 6), event("a scope", 106 + late, 1, pid, 6),
        event("P state", 1, 1e-6, pid, 0, args={"P State": "3"}),
    ]  # fmt: skip


def test_a_tpu_of_a_chrome_trace_becomes_launches_ops_and_collectives(tmp_path):
    # 1001 is what newer exports call the first device; the process name decides.
    raw = document(*tpu_events(1001, 0), *tpu_events(1002, 1, late=3))
    path = write(tmp_path / "h.trace.json.gz", gzip.compress(raw))
    ingest_paths([path], str(tmp_path / "wh"))
    wh = tmp_path / "wh"
    assert rows(wh, "launches").select("device_id", "program_id", "module", "start_ps").rows() == [
        (0, 77, "jit_f", 100_000_000),
        (1, 77, "jit_f", 103_000_000),
    ]
    found = rows(wh, "collectives").select(
        "device_id", "kind", "payload_bytes", "group_size", "instance", "arrival_ps", "layer", "component"
    )  # fmt: skip
    assert found.rows() == [
        (0, "all-reduce", 1024, 2, 0, 105_000_000, 3, "attention"),
        (1, "all-reduce", 1024, 2, 0, 108_000_000, 3, "attention"),
    ]
    call = rows(wh, "ops").filter(pl.col("op") == "call.2")
    assert call["model_flops"].to_list() == call["bytes_accessed"].to_list() == [None, None]
    assert rows(wh, "counters").select("device_id", "name", "value").rows() == [
        (0, "P state", 3.0),
        (1, "P state", 3.0),
    ]
    assert rows(wh, "host_events")["thread"].to_list() == [
        "/device:TPU:0/XLA TraceMe",
        "/device:TPU:1/XLA TraceMe",
    ]
    instruction = rows(wh, "instructions").filter(pl.col("op") == "psum.1").row(0, named=True)
    assert (instruction["source_file"], instruction["source_line"]) == ("/m/model.py", 12)
    run = run_of(wh)
    assert (run["source"], run["status"], run["epoch_ns"]) == ("chrome", "complete", None)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_one_device_does_not_show_of_a_program_another_one_tells(tmp_path, order):
    """An export at its cap ends earlier on one device; both run the same program."""
    gather = "%ag.3 = f32[64]{0} all-gather(f32[32]{0} %y), replica_groups={{0,1}}, dimensions={0}"
    devices = [
        [*named(3, "/device:TPU:0", **LINES), event("jit_f(77)", 100, 50, 3, 2),
         op("psum.1", 110, 20, REDUCE, 3)],
        [*named(4, "/device:TPU:1", **LINES), event("jit_f(77)", 100, 50, 4, 2),
         op("psum.1", 110, 20, REDUCE, 4), op("ag.3", 140, 5, gather, 4)],
    ]  # fmt: skip
    path = write(
        tmp_path / "h.trace.json", document(*(e for place in order for e in devices[place]))
    )
    ingest_paths([path], str(tmp_path / "wh"))
    found = rows(tmp_path / "wh", "collectives").sort("device_id", "start_ps")
    # f32[256] is 1024 bytes, f32[64] gathered is 256
    assert found.select("device_id", "op", "payload_bytes", "group_size").rows() == [
        (0, "psum.1", 1024, 2),
        (1, "psum.1", 1024, 2),
        (1, "ag.3", 256, 2),
    ]
    assert rows(tmp_path / "wh", "instructions")["op"].sort().to_list() == ["ag.3", "psum.1"]


def test_groups_that_cannot_be_read_cost_the_collective_its_groups_alone(tmp_path):
    raw = document(*tpu_events(3, 0)).replace(b"replica_groups={{0,1}}", b"replica_groups=<0,1>")
    ingest_paths([write(tmp_path / "h.trace.json", raw)], str(tmp_path / "wh"))
    found = rows(tmp_path / "wh", "collectives").select(
        "kind", "payload_bytes", "group_size", "layer"
    )
    assert found.rows() == [("all-reduce", 1024, None, 3)]
    said = rows(tmp_path / "wh", "issues").filter(pl.col("code") == "damaged_hlo")
    assert said["count"].to_list() == [1]
    assert "replica_groups of psum.1: replica groups in an unknown" in said["message"][0]
    assert "bad_replica_groups" in rows(tmp_path / "wh", "issues")["code"]


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, lambda raw: pa.compress(raw, "zstd", asbytes=True)]
)
@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_a_files_ending_says_nothing_of_how_it_is_packed(tmp_path, pack, ending):
    path = write(tmp_path / f"h.trace.json{ending}", pack(document(*tpu_events(3, 0))))
    ingest_paths([path], str(tmp_path / "wh"))
    assert rows(tmp_path / "wh", "launches")["module"].to_list() == ["jit_f"]


def test_an_xplane_that_is_no_use_is_replaced_by_the_json_beside_it_and_a_good_one_is_not(tmp_path):
    session = tmp_path / "plugins/profile/s"
    raw = gzip.compress(document(*tpu_events(3, 0), *tpu_events(4, 1)))
    json_path = write(session / "h.trace.json.gz", raw)
    write(session / "h.xplane.pb", b"")
    write(session / "perfetto_trace.json.gz", raw)
    (empty,) = ingest_paths([str(tmp_path / "plugins")], str(tmp_path / "empty"))
    assert run_of(tmp_path / "empty")["source"] == "chrome"
    files = run_of(tmp_path / "empty")["source_files"]
    assert [file["path"] for file in files] == [json_path]
    said = rows(tmp_path / "empty", "issues").filter(pl.col("code") == "xplane_replaced")
    assert "the file is empty" in said["message"][0]
    (again,) = ingest_paths([str(tmp_path / "plugins")], str(tmp_path / "empty"))
    assert (again.run_id, again.unchanged) == (empty.run_id, True)

    write(session / "h.xplane.pb", tpu_trace())
    ingest_paths([str(tmp_path / "plugins")], str(tmp_path / "good"))
    assert run_of(tmp_path / "good")["source"] == "xplane"
    assert rows(tmp_path / "good", "devices").filter("traced").height == 1


def test_metadata_may_come_after_its_use_and_an_async_op_is_called_by_its_instruction():
    text = "%copy-start.4 = (f32[8], f32[8], u32[]) copy-start(f32[8] %z)"
    raw = document(op("async-copy", 5, 1, text, tid=4), *named(3, "/device:TPU:0", **LINES))
    (plane,) = read_chrome(raw, "f").planes
    assert plane.ops.select("op", "on_async_line", "opcode_text").rows() == [
        ("copy-start.4", True, "copy-start")
    ]


@pytest.mark.parametrize("args", ["[1]", '"text"', "7"])
def test_arguments_of_any_kind_leave_the_op(args):
    raw = document(
        *named(3, "/device:TPU:0", **LINES),
        event("x", 5, 1, 3, 3)[:-1] + f', "args": {args}}}',
    )
    (plane,) = read_chrome(raw, "f").planes
    assert plane.ops.select("op", "start_ps").rows() == [("x", 5_000_000)]


def test_virtual_devices_are_known_by_their_ordinal_or_where_there_is_one():
    host = named(701, "/host:CPU", t1="main")

    def cpu_op(ts, **more):
        return event("dot.1", ts, 2, 701, 1, args={"hlo_op": "dot.1", "hlo_module": "m"} | more)

    (plane,) = read_chrome(document(*host, cpu_op(1, device_ordinal="3"), cpu_op(5)), "f").planes
    assert plane.ops.select("device_id", "op", "module").rows() == [(3, "dot.1", "m")]
    assert plane.host_events["start_ps"].to_list() == [5_000_000]
    assert {issue.code: issue.count for issue in plane.issues} == {
        "device_unknown": 1,
        "device_inferred": 1,
    }
    execute = [event(f"PjRtCpuExecutable::Execute{n}", 0, 9, 701, 1) for n in ("", "Helper")]
    (alone,) = read_chrome(document(*host, *execute, cpu_op(1)), "f").planes
    assert alone.ops.select("device_id", "op").rows() == [(0, "dot.1")]


def plain_tpu():
    """The sample's events, by the standard library alone."""
    events = json.loads(gzip.decompress(sample(TPU).read_bytes()))["traceEvents"]
    return [each for each in events if each.get("ph") == "X"]


def test_the_vllm_sample_has_its_ops_times_and_all_reduces(sample_warehouse):
    root = sample_warehouse(TPU)
    ops = rows(root, "ops").filter(pl.col("line") == "XLA Ops")
    theirs = [each for each in plain_tpu() if each["pid"] in (3, 4) and each["tid"] == 3]
    for device, pid in ((0, 3), (1, 4)):
        mine = ops.filter(pl.col("device_id") == device)
        counted = Counter(each["name"] for each in theirs if each["pid"] == pid)
        assert dict(mine.group_by("op").len().rows()) == counted
        total = sum(round(each["dur"] * 1e6) for each in theirs if each["pid"] == pid)
        assert mine["duration_ps"].sum() == total
    reduces = rows(root, "collectives").filter(pl.col("kind") == "all-reduce")
    # METRICS, Bytes: bf16[1024,5120] in groups of two; 128 of 129 are called psum.
    assert reduces.group_by("device_id").len().sort("device_id").rows() == [(0, 129), (1, 129)]
    assert reduces["payload_bytes"].unique().to_list() == [10_485_760]
    assert reduces["group_size"].unique().to_list() == [2]
    assert reduces.filter(pl.col("op").str.starts_with("psum.")).height == 256
    assert reduces["instance"].n_unique() == 129
    calls = rows(root, "ops").filter(pl.col("opcode") == "custom-call")
    assert calls.height > 0
    assert calls["model_flops"].null_count() == calls["flops"].null_count() == calls.height


def test_the_cpu_samples_export_has_the_ops_of_its_xplane(sample_warehouse):
    export = read_chrome(sample(f"{CPU}.trace.json.gz").read_bytes(), "f.trace.json.gz")
    root = sample_warehouse(f"{CPU}.xplane.pb")
    ops = rows(root, "ops").select("op", "start_ps").rows()
    theirs = Counter(
        row
        for plane in export.planes
        for row in plane.host_events.select("name", "start_ps").iter_rows()
    )
    assert len(ops) == 99  # 40 dot, 20 call, 20 fusions, 19 all-reduce: counted in the JSON
    assert not Counter(ops) - theirs
    issues = {issue.code: issue.count for plane in export.planes for issue in plane.issues}
    assert issues == {"device_unknown": len(ops)}


def arrow(ph, ts, pid, number=9, **fields):
    return json.dumps(
        {"ph": ph, "pid": pid, "tid": 2, "name": "f", "ts": ts, "id": number} | fields
    )


MODULES = (event("jit_f(77)", 100, 50, 3, 2), event("jit_f(77)", 200, 50, 3, 2))
CALLS = (event("Enqueue", 10, 5, 1, 2), event("Enqueue", 20, 5, 1, 2))


@pytest.mark.parametrize(
    ("arrows", "enqueued"),
    [
        ([arrow("s", 12, 1), arrow("f", 120, 3, bp="e")], [10, None]),
        ([arrow("s", 12, 1), arrow("f", 120, 3)], [None, 10]),
        ([arrow("s", 17, 1), arrow("f", 100, 3)], [17, None]),
        ([arrow("s", 22, 1), arrow("t", 130, 3, bp="e"), arrow("f", 200, 3)], [20, 20]),
        ([arrow("s", 12, 1), arrow("f", 120, 3, number=8, bp="e")], [None, None]),
        ([arrow("s", 120, 3), arrow("f", 200, 3)], [None, None]),
        ([arrow("s", 140, 1), arrow("f", 120, 3, bp="e")], [None, None]),
        ([arrow("s", 12, 1), arrow("f", 160, 3, bp="e")], [None, None]),
    ],
    ids=["around", "next", "no slice", "step", "other id", "device", "backwards", "between"],
)
def test_arrows_from_a_host_tell_when_a_launch_was_enqueued(arrows, enqueued):
    raw = document(
        *named(3, "/device:TPU:0", **LINES), *named(1, "/host:CPU"), *MODULES, *CALLS, *arrows
    )
    (launches,) = [p.launches for p in read_chrome(raw, "f").planes if not p.launches.is_empty()]
    expected = [None if us is None else us * 1_000_000 for us in enqueued]
    assert launches.sort("start_ps")["enqueue_ps"].to_list() == expected


def test_a_bind_id_tells_when_a_launch_was_enqueued():
    late, early = 2**63 + 5, 6
    bound = [
        event("Enqueue", 10, 5, 1, 2, bind_id=early, flow_out=True),
        event("Enqueue", 20, 5, 1, 2, bind_id=late, flow_out=True),
        event("Wait", 15, 5, 1, 2, bind_id=late, flow_in=True),
        event("jit_f(77)", 100, 50, 3, 2, bind_id=late, flow_in=True),
        event("jit_f(77)", 200, 50, 3, 2, bind_id=early, flow_in=True, flow_out=True),
        event("jit_f(77)", 300, 50, 3, 2),
    ]
    raw = document(*named(3, "/device:TPU:0", **LINES), *named(1, "/host:CPU"), *bound)
    (launches,) = [p.launches for p in read_chrome(raw, "f").planes if not p.launches.is_empty()]
    assert launches["enqueue_ps"].to_list() == [20_000_000, 10_000_000, None]
