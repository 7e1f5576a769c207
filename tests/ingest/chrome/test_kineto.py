"""Traces of PyTorch's profiler: kernels by stream, collectives by what the trace says of each."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import polars as pl
import pytest

from tests.ingest.chrome_build import document, event, issues_of, named, point, run_of
from tests.ingest.traces import rows
from tests.samples import sample
from xlahouse.ingest.chrome.kineto_collectives import (
    NcclTransfer,
    annotated,
    process_groups,
    rank_of,
    recorded,
)
from xlahouse.ingest.chrome.read import read_chrome
from xlahouse.ingest.events.gpu_kernels import kind_of
from xlahouse.ingest.run import ingest_paths

HEAD = ',"schemaVersion":1'


def kernel(name, ts, dur, device=0, stream=7, cat="kernel", **args):
    return event(
        name, ts, dur, pid=device, tid=stream, cat=cat,
        args={"device": device, "stream": stream, **args},
    )  # fmt: skip


def nccl(ts, dur, collective="allreduce", elements=(1024, 1024), ranks="[0, 1]", **args):
    return kernel(
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)", ts, dur, stream=20,
        **{"Collective name": collective, "dtype": "BFloat16", "In msg nelems": elements[0],
           "Out msg nelems": elements[1], "Group size": 2, "Process Group Name": "0",
           "Process Group Ranks": ranks} | args,
    )  # fmt: skip


def of_rank(rank, *events):
    info = json.dumps({"backend": "nccl", "rank": rank, "world_size": 2})
    tail = (
        f',"schemaVersion":1,"distributedInfo":{info},"baseTimeNanoseconds":1700000000000000000}}'
    )
    return document(*events, tail=tail)


def test_kernels_are_ops_on_their_stream_and_copies_say_which_way_they_go():
    raw = document(
        kernel("gemm", 10, 5), kernel("Memset (Device)", 15, 1, cat="gpu_memset"),
        kernel("Memcpy HtoD (Pageable -> Device)", 16, 2, cat="gpu_memcpy", stream=8),
        kernel("Memcpy DtoD (Device -> Device)", 18, 2, cat="gpu_memcpy", stream=8),
        event("aten::mm", 5, 3, pid=99, tid=99, cat="cpu_op"),
        event("gemm", 10, 5, pid=0, tid=7, cat="gpu_user_annotation"),
        *named(99, "python"), tail=HEAD + "}",
    )  # fmt: skip
    device, rest = read_chrome(raw, "f.json").planes
    assert device.ops.select("op", "line", "traced_category", "kernel", "start_ps").rows() == [
        ("gemm", "stream 7", "compute", "gemm", 10_000_000),
        ("Memset (Device)", "stream 7", "compute", None, 15_000_000),
        ("Memcpy HtoD (Pageable -> Device)", "stream 8", "host_transfer", None, 16_000_000),
        ("Memcpy DtoD (Device -> Device)", "stream 8", "copy", None, 18_000_000),
    ]
    assert rest.host_events.select("thread", "name").rows() == [("99", "aten::mm"), ("7", "gemm")]
    assert device.launches.is_empty()


def test_ranks_of_one_call_are_one_run_with_instances_across_files(tmp_path):
    for rank, (ts, dur) in enumerate([(10, 8), (12, 6)]):
        (tmp_path / f"rank{rank}.json").write_bytes(
            of_rank(rank, kernel("gemm", 1, 5), nccl(ts, dur))
        )
    ingest_paths([str(tmp_path)], str(tmp_path / "wh"), name="both")
    assert rows(tmp_path / "wh", "devices").select("device_id", "core", "traced").rows() == [
        (0, "gpu", True),
        (1, "gpu", True),
    ]
    found = rows(tmp_path / "wh", "collectives")
    assert found.select("device_id", "kind", "dtype", "payload_bytes", "group_size").rows() == [
        (0, "all-reduce", "bf16", 2048, 2),
        (1, "all-reduce", "bf16", 2048, 2),
    ]
    assert found["instance"].to_list() == [0, 0]
    # Both files count from their own earliest event, 1 us after the base time.
    assert found.select("start_ps", "duration_ps").rows() == [
        (9_000_000, 8_000_000),
        (11_000_000, 6_000_000),
    ]


@pytest.mark.parametrize(
    ("collective", "elements", "kind", "payload"),
    [
        ("allreduce", (1024, 1024), "all-reduce", 2048),
        ("_allgather_base", (1024, 2048), "all-gather", 4096),
        ("_reduce_scatter_base", (1024, 512), "reduce-scatter", 2048),
        ("all_to_allv", (1000, 900), "all-to-all", 2000),
        ("broadcast", (64, 64), "collective-broadcast", 128),
    ],
)
def test_what_a_kernel_records_is_believed(tmp_path, collective, elements, kind, payload):
    (tmp_path / "a.json").write_bytes(of_rank(1, nccl(10, 8, collective, elements)))
    ingest_paths([str(tmp_path / "a.json")], str(tmp_path / "wh"))
    (row,) = rows(tmp_path / "wh", "collectives").to_dicts()
    assert (row["kind"], row["payload_bytes"], row["group_size"]) == (kind, payload, 2)
    assert row["device_id"] == 1


def codes(root):
    return {
        code for f in root.glob("tables/issues/*/*.parquet") for code in pl.read_parquet(f)["code"]
    }


def test_a_rank_is_missed_only_where_it_is_not_here(tmp_path):
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.json").write_bytes(of_rank(rank, nccl(10, 8)))
    ingest_paths([str(tmp_path / "rank0.json")], str(tmp_path / "alone"))
    ingest_paths(
        [str(tmp_path / f"rank{rank}.json") for rank in (0, 1)], str(tmp_path / "both"), name="b"
    )
    assert "one_rank" in codes(tmp_path / "alone")
    assert "one_rank" not in codes(tmp_path / "both")
    # Ranks are devices: there is no assignment that a program would have to state.
    assert "device_assignment_unknown" not in codes(tmp_path / "both")


@pytest.mark.parametrize(
    ("dtype", "hlo", "payload"),
    [  # of 1024 elements
        ("ComplexFloat", "c64", 8192),
        ("ComplexDouble", "c128", 16384),
        ("UInt16", "u16", 2048),
        ("UInt64", "u64", 8192),
        ("Float8_e4m3fnuz", "f8e4m3fnuz", 1024),
        ("Float8_e5m2", "f8e5m2", 1024),
    ],
)
def test_element_types_of_pytorch(tmp_path, dtype, hlo, payload):
    (tmp_path / "a.json").write_bytes(of_rank(1, nccl(10, 8).replace("BFloat16", dtype)))
    ingest_paths([str(tmp_path / "a.json")], str(tmp_path / "wh"))
    (row,) = rows(tmp_path / "wh", "collectives").to_dicts()
    assert (row["dtype"], row["payload_bytes"], row["group_size"]) == (hlo, payload, 2)


@pytest.mark.parametrize("collective", ["send", "recv"])
def test_what_passes_between_two_ranks_is_send_recv_of_unknown_size(tmp_path, collective):
    (tmp_path / "a.json").write_bytes(of_rank(1, nccl(10, 8, collective)))
    ingest_paths([str(tmp_path / "a.json")], str(tmp_path / "wh"))
    (row,) = rows(tmp_path / "wh", "collectives").to_dicts()
    assert (row["kind"], row["payload_bytes"]) == ("send-recv", None)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nccl:send 0->1", "send-recv"),
        ("nccl:recv 1<-0", "send-recv"),
        ("nccl:recv_any_source", "send-recv"),
        ("sendrecv", None),
        ("ncclDevKernel_SendRecv(x)", None),
    ],
)
def test_names_of_send_and_recv(name, kind):
    assert kind_of(name) == kind


def test_ranks_that_are_listed_in_part_come_from_the_file_or_stay_unknown():
    args = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 4,
            "Process Group Name": "3", "Group size": 3, "Process Group Ranks": "[0, 1, ...]"}  # fmt: skip
    assert recorded(args, {"3": (0, 1, 2)}).members == (0, 1, 2)
    assert recorded(args, {}).members is None
    assert recorded(args | {"Process Group Ranks": "[0, 1]"}, {}).members is None
    assert recorded({"Collective name": ""}, {}) is None


def test_the_annotation_around_the_launch_says_more_than_the_kernels_name():
    def host(name, ts, dur, cat, **args):
        return event(name, ts, dur, pid=9, tid=9, cat=cat, args=args)

    raw = document(
        host("c10d::_allgather_base_", 1, 9, "cpu_op",
             **{"Input Dims": [[64], [16], []], "Input type": ["float", "float", ""]}),
        host("nccl:_all_gather_base", 2, 5, "user_annotation",
             **{"Input Dims": [[16]], "Input type": ["float"]}),
        host("cudaLaunchKernel", 3, 1, "cuda_runtime", correlation=7),
        kernel("ncclKernel_SendRecv_RING(x)", 20, 4, correlation=7),
        kernel("ncclKernel_SendRecv_RING(x)", 30, 4, correlation=8), tail=HEAD + "}",
    )  # fmt: skip
    read = read_chrome(raw, "f.json")
    assert read.planes[0].ops.select("op", "traced_category").rows() == [
        ("nccl__all_gather_base.f32.16.64", None),
        ("ncclKernel_SendRecv_RING(x)", "collective"),
    ]
    (program,) = read.programs.values()
    (instruction,) = [i for _, i in program.instructions() if i.opcode == b"all-gather"]
    assert list(instruction.shape.dimensions) == [64]
    found = issues_of(raw)
    assert found["collective_kind_unknown"] == 1
    assert "kind_inferred" not in found  # no name states a kind


def test_sizes_that_are_not_told_are_not_made_up():
    told = annotated("nccl:_all_gather_base", {"Input Dims": [[16]], "Input type": ["float"]}, None)
    assert (told.kind, told.elements_out, told.instruction) == ("all-gather", None, None)
    scattered = annotated(
        "nccl:reduce_scatter", {"Input Dims": [[16]], "Input type": ["half"]}, None
    )
    assert scattered.instruction == (
        "%nccl_reduce_scatter.f16.16 = f16[?] reduce-scatter(f16[16] %input), dimensions={0}"
    )
    assert NcclTransfer("nccl.x", "all-reduce").instruction is None
    assert kind_of("ncclKernel_SendRecv_RING") is None


def test_process_groups_of_a_file():
    raw = b'{"rank":3,"world_size":4,"pg_config":[{"pg_name":"0","pg_size":2,"ranks":[2,3]},{"pg_name":"1","pg_size":9,"ranks":[0]}]}'  # noqa: E501
    assert (rank_of(raw), process_groups(raw)) == ((3, 4), {"0": (2, 3)})
    assert (rank_of(b"[]"), process_groups(b"[]")) == ((None, None), {})


@pytest.mark.parametrize("written", ["[7, true]", "[7, 1.0]", "[7, 9223372036854775808]"])
def test_ranks_are_whole_numbers(written):
    raw = '{"pg_config": [{"pg_name": "a", "ranks": %s}, {"pg_name": "b", "ranks": ["7", 0]}]}'
    assert process_groups((raw % written).encode()) == {"b": (7, 0)}


def test_steps_of_the_profiler_are_phases():
    raw = document(
        event("ProfilerStep#12", 5, 9, pid=1, cat="user_annotation"),
        event("ProfilerStep#12", 6, 9, pid=0, cat="gpu_user_annotation"),
        point("s", 7, "ac2g", id=3, cat="ac2g"), tail=HEAD + "}",
    )  # fmt: skip
    (rest,) = read_chrome(raw, "f.json").planes
    assert rest.markers.select("phase", "request", "step", "start_ps").rows() == [
        ("step", None, 12, 5_000_000)
    ]
    assert rest.host_events.height == 2  # an arrow is not an event


def plain(name):
    """A sample by the standard library alone."""
    return json.loads(gzip.decompress(sample(f"kineto/{name}").read_bytes()))


@pytest.mark.parametrize(
    "name", ["amd_minitoy", "sampled_rank1", "large_integer", "cpu_only_base_time"]
)
def test_samples_keep_every_event(name):
    theirs = [each for each in plain(f"{name}.json.gz")["traceEvents"] if each["ph"] != "M"]
    read = read_chrome(sample(f"kineto/{name}.json.gz").read_bytes(), f"{name}.json.gz")
    assert sum(plane.coverage["events_read"].sum() for plane in read.planes) == len(theirs)
    assert sum(plane.coverage["events_rejected"].sum() for plane in read.planes) == 0
    ran = [each for each in theirs if each.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    ops = [row for plane in read.planes for row in plane.ops.iter_rows(named=True)]
    assert len(ops) == len(ran)
    assert sum(op["duration_ps"] for op in ops) == round(sum(each["dur"] for each in ran) * 1e6)
    names = Counter(op["kernel"] or op["op"] for op in ops)
    assert names == Counter(each["name"] for each in ran)


def test_the_sampled_rank_has_ten_collectives_of_known_size(sample_warehouse):
    root = sample_warehouse("kineto/sampled_rank1.json.gz")
    found = rows(root, "collectives").sort("start_ps").select("kind", "payload_bytes").rows()
    # Worked out by hand from the host's annotations: elements times the size of their type.
    assert found == [
        ("all-to-all", 339_738_624), ("all-to-all", 2_846_720 * 4), ("all-reduce", 19_618_307 * 4),
        ("all-reduce", 26_258_430 * 4), ("all-gather", 1_073_741_824), ("all-to-all", 384 * 8),
        ("all-reduce", 19_618_307 * 4), ("all-to-all", 394_073_856), ("all-reduce", 5_716_654 * 4),
        ("all-gather", 1_073_741_824),
    ]  # fmt: skip
    assert run_of(root)["source"] == "chrome"


def test_base_time_and_devices_of_the_amd_sample(sample_warehouse):
    root = sample_warehouse("kineto/amd_minitoy.json.gz")
    run = run_of(root)
    # baseTimeNanoseconds 1735632360000000000, and the earliest ts is 4203669603018.756 us.
    assert run["epoch_ns"] == 1_735_632_360_000_000_000 + 4_203_669_603_018_000
    (device,) = rows(root, "devices").to_dicts()
    assert (device["kind"], device["core"], device["local_ordinal"]) == (
        "AMD Radeon Graphics",
        "gpu",
        2,
    )


def of_both(tmp_path, *events_of_rank, **options):
    """The warehouse of a run of two ranks."""
    for rank, events in enumerate(events_of_rank):
        (tmp_path / f"rank{rank}.json").write_bytes(of_rank(rank, *events))
    ingest_paths([str(tmp_path)], str(tmp_path / "wh"), name="both", **options)
    return tmp_path / "wh"


def test_an_uneven_all_to_all_is_one_transfer_of_which_every_rank_sends_its_own(tmp_path):
    """Rank 0 sends 100 elements of 2 bytes and gets 300, rank 1 the other way round."""
    uneven = {"In split size": "[50, 50]", "Out split size": "[150, 150]"}
    wh = of_both(
        tmp_path,
        [nccl(10, 8, "all_to_allv", (100, 300), **uneven)],
        [nccl(11, 7, "all_to_allv", (300, 100))],
    )
    found = rows(wh, "collectives")
    columns = ("device_id", "kind", "op", "instance", "group_size", "payload_bytes")
    assert found.select(columns).rows() == [
        (0, "all-to-all", "nccl_all_to_allv.pg0.bf16", 0, 2, 200),
        (1, "all-to-all", "nccl_all_to_allv.pg0.bf16", 0, 2, 600),
    ]
    assert codes(wh) == {"op_outside_launch", "device_kind_unknown", "columns_unstated"}


def test_a_rank_that_sends_nothing_to_an_uneven_all_to_all_sends_nothing(tmp_path):
    wh = of_both(
        tmp_path,
        [nccl(10, 8, "all_to_allv", (0, 300))],
        [nccl(11, 7, "all_to_allv", (300, 0))],
    )
    assert rows(wh, "collectives")["payload_bytes"].to_list() == [0, 600]


def test_a_kernel_that_ran_moved_something_so_none_of_no_elements_is_of_unknown_size(tmp_path):
    (tmp_path / "a.json").write_bytes(of_rank(1, nccl(10, 8, elements=(0, 0))))
    ingest_paths([str(tmp_path / "a.json")], str(tmp_path / "wh"))
    (row,) = rows(tmp_path / "wh", "collectives").to_dicts()
    assert (row["kind"], row["dtype"], row["payload_bytes"]) == ("all-reduce", "bf16", None)
    assert (row["group_size"], row["instance"]) == (2, 0)
    assert "collective_without_payload" in codes(tmp_path / "wh")
    # the program tells none, as of all of NCCL's
    assert "size_unknown" not in codes(tmp_path / "wh")


@pytest.mark.parametrize("listed", ["[]", "[0, 1, ...]", None])
def test_a_group_of_as_many_as_there_are_is_of_all_ranks(tmp_path, listed):
    """PyTorch leaves the list of a group empty that all ranks are in."""
    everybody = nccl(10, 8, ranks=listed, **{"Group size": 2})
    (tmp_path / "a.json").write_bytes(of_rank(1, everybody))
    ingest_paths([str(tmp_path / "a.json")], str(tmp_path / "wh"))
    assert rows(tmp_path / "wh", "replica_groups")["logical_id"].to_list() == [0, 1]
    some = recorded(
        {"Collective name": "allreduce", "Group size": 2, "Process Group Ranks": "[]"}, {}, 4
    )
    assert some.members is None
