"""Facts that a kind of trace states and a trace lacks: one finding names their columns."""

from __future__ import annotations

import pytest

from tests.ingest.build import PlaneBuilder, space
from tests.ingest.traces import write
from tests.samples import sample
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.run_findings import TPU_KINDS, USUAL
from xlahouse.ingest.schema import BY_NAME
from xlahouse.sql.warehouse import Warehouse

KINETO_WITHOUT_SEQ = "kineto/sampled_rank1.json.gz"  # of an older PyTorch
US = 1_000_000  # ps
# Stat that a TPU's plane or op lacks -> the columns that nothing states then.
LOST = {
    "flops": {"ops.flops"},
    "model_flops": {"ops.model_flops"},
    "bytes_accessed": {"ops.bytes_accessed"},
    "hlo_category": {"ops.hlo_category"},
    "memory_access_breakdown": {"ops.hbm_bytes"},
    "peak_teraflops_per_second": {"devices.peak_flops"},
    "peak_hbm_bw_gigabytes_per_second": {"devices.peak_hbm_bytes_per_s"},
    "core_details": {"devices.chip_id"},
    "profile_start_time": {"runs.epoch_ns"},
}


def tpu(kind="TPU v6 Lite", without=""):
    """A TPU's op that states all that its profiler states, but one stat."""
    breakdown = b"\x0a\x06\x08\x01\x10\x01\x18\x40"  # a read of 64 bytes in memory space 1
    stats = {
        "program_id": 77,
        "hlo_category": "loop fusion",
        "flops": 8,
        "model_flops": 8,
        "bytes_accessed": 64,
        "memory_access_breakdown": breakdown,
    }
    of_plane = {
        "core_details": b"\x28\x00\x30\x00",
        "device_type_string": kind,
        "peak_teraflops_per_second": 918.0,
        "peak_hbm_bw_gigabytes_per_second": 1638.0,
    }
    plane = PlaneBuilder(
        "/device:TPU:0", **{name: each for name, each in of_plane.items() if name != without}
    )
    plane.event(plane.line("XLA Modules"), "jit_f(77)", 100 * US, 50 * US)
    text = "%fusion.1 = f32[8]{0} fusion(f32[8]{0} %x)"
    kept = {name: each for name, each in stats.items() if name != without}
    plane.event(plane.line("XLA Ops"), text, 100 * US, 50 * US, "fusion.1", kept)
    start = {} if without == "profile_start_time" else {"profile_start_time": 1_700_000_000 * 10**9}
    return space(plane.plane, PlaneBuilder("Task Environment", **start).plane)


def found(raw, tmp_path, code="columns_unstated"):
    """[(count, message)] of findings of a code."""
    path = write(tmp_path / "t" / "h.xplane.pb", raw)
    ingest_paths([path], str(tmp_path / "w"))
    with Warehouse(str(tmp_path / "w")) as warehouse:
        return warehouse.query(f"select count, message from issues where code = '{code}'").rows


def named(message):
    """The columns in a message."""
    columns = {f"{table}.{column}" for table in BY_NAME for column in BY_NAME[table].schema.names}
    return {column for column in columns if f" {column} (" in message}


def test_a_trace_that_states_all_has_no_such_finding(tmp_path):
    assert found(tpu(), tmp_path) == []


@pytest.mark.parametrize("stat", LOST)
def test_a_stat_that_is_gone_is_named_by_its_column(stat, tmp_path):
    ((count, message),) = found(tpu(without=stat), tmp_path)
    assert (count, named(message)) == (1, LOST[stat])


@pytest.mark.parametrize(
    "name",
    [
        "cpu/torch_xla_mlp_4dev.xplane.pb",
        "gpu/mi300_jax_gemm.xplane.pb",
        pytest.param("tpu/v6e_4dev_jax_psum_offload.xplane.pb", marks=pytest.mark.verify),
        pytest.param("tpu/vllm_qwen3_tp2.trace.json.gz", marks=pytest.mark.verify),
        "kineto/amd_minitoy.json.gz",
    ],
)
def test_real_traces_have_none(name, tmp_path):
    ingest_paths([str(sample(name))], str(tmp_path))
    with Warehouse(str(tmp_path)) as warehouse:
        assert not warehouse.query("from issues where code = 'columns_unstated'").rows


def test_an_older_trace_of_pytorch_numbers_no_transfers(tmp_path):
    ingest_paths([str(sample(KINETO_WITHOUT_SEQ))], str(tmp_path))
    with Warehouse(str(tmp_path)) as warehouse:
        sql = "select message from issues where code = 'columns_unstated'"
        ((message,),) = warehouse.query(sql).rows
    assert named(message) == {"collectives.sequence"}


def test_gpus_without_a_peak_are_a_finding_of_an_xplane(tmp_path):
    """The sample of an MI300 states its memory's rate, and no FLOP/s."""
    ingest_paths([str(sample("gpu/mi300_jax_gemm.xplane.pb"))], str(tmp_path))
    with Warehouse(str(tmp_path)) as warehouse:
        sql = "select count, message from issues where code = 'peak_unknown'"
        ((count, message),) = warehouse.query(sql).rows
        ((devices,),) = warehouse.query("select count(*) from devices where traced").rows
    assert count == devices
    assert "`xlahouse set peaks RUN bf16_flops=NUMBER`" in message


def test_columns_are_those_of_the_schema():
    for columns in USUAL.values():
        for name in columns:
            table, _, column = name.partition(".")
            assert column in BY_NAME[table].schema.names, name


def test_kinds_with_peaks_are_those_of_the_view(tmp_path):
    write(tmp_path / "t" / "h.xplane.pb", tpu())
    ingest_paths([str(tmp_path / "t")], str(tmp_path / "w"))
    with Warehouse(str(tmp_path / "w")) as warehouse:
        names = [name for (name,) in warehouse.query("select kind_name from _chip_peaks_v1").rows]
    assert len(names) > 15
    assert [name for name in names if not TPU_KINDS.fullmatch(name)] == []
    assert not TPU_KINDS.fullmatch("tpuv8")


def test_a_kind_of_tpu_that_has_no_peaks_is_a_finding(tmp_path):
    ((count, message),) = found(tpu("TPU v9 Mega"), tmp_path, "device_kind_unknown")
    assert count == 1
    assert message.startswith("the kind of the devices, TPU v9 Mega, is no TPU that has peaks here")
    assert "`xlahouse set device-kind RUN KIND`" in message
