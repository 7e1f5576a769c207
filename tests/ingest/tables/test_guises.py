"""Small runs whose communication does not look like it, with their right values (tests/cases/README.md)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.ingest.chrome_build import document, event, named
from tests.ingest.traces import write
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.warehouse import Warehouse

CASES = Path(__file__).parents[2] / "cases" / "transfers"
PS = 10**6  # a microsecond


def ingested(case, tmp_path, **options):
    ingest_paths([str(CASES / case)], str(tmp_path), name=case, **options)
    return Warehouse(str(tmp_path))


def codes(warehouse):
    return {code for (code,) in warehouse.query("select code from issues").rows}


def test_an_async_collective_without_hlo_is_a_transfer_of_unknown_kind(tmp_path):
    with ingested("async_collective_without_hlo", tmp_path) as warehouse:
        # The file, in us: start op [0, 10), fusion.1 [10, 200), done op [200, 250), fusion.2 [250, 300),
        # and again 1,000 later, on both devices. In flight from the start op's start to the done op's end
        # (METRICS, Time split): 250. The done op waits 50; of the 250, fusion.1 hides 190.
        sql = "select distinct kind, duration_ps, is_async, wait_ps from collectives"
        assert warehouse.query(sql).rows == [(None, 250 * PS, True, 50 * PS)]
        sql = "select distinct compute_ps, overlapped_ps, exposed_ps from device_time"
        assert warehouse.query(sql).rows == [(240 * PS, 190 * PS, 60 * PS)]
        sql = "select count(*) from ops where op like 'async-collective%' and category = 'compute'"
        assert warehouse.query(sql).rows == [(0,)]
        assert "async_kind_unknown" in codes(warehouse)


def test_a_transfer_offloaded_to_a_sparsecore_is_in_flight_on_the_tensorcore(tmp_path):
    with ingested("sparsecore_offload_without_hlo", tmp_path) as warehouse:
        # The SparseCore's all-reduce takes 100; the op that starts it takes 1 more, hidden by fusion.1.
        sql = "select kind, duration_ps, payload_bytes from collectives"
        assert warehouse.query(sql).rows == [("all-reduce", 101 * PS, 64 * 1024 * 2)]
        sql = "select collective_ps, exposed_ps from device_time where core = 'tensorcore'"
        assert warehouse.query(sql).rows == [(101 * PS, 100 * PS)]
        sql = "select distinct duration_ps from ops where op = 'all-reduce.9'"
        assert warehouse.query(sql).rows == [(100 * PS,)]
        assert "async_kind_unknown" not in codes(warehouse)


FUSED = "f32[8] fusion(f32[8] %x), kind=kCustom, calls=%async_collective_fused_computation.2"
OFFLOADED = "((f32[8]), f32[8], u32[]) async-{}(f32[8] %x), calls=%{}"


@pytest.mark.parametrize(
    ("pair", "texts", "found"),
    [
        ("async-collective", ("", ""), (None, "collective")),
        ("async-collective", (f"%a = {FUSED}", f"%b = {FUSED}"), (None, "collective")),
        ("async", ("", ""), (None, "collective")),
        ("all-reduce", ("", ""), (None, "collective")),
        (
            "async",
            ("%async-start.7 = " + OFFLOADED.format("start", "wrapped_all-reduce"), ""),
            ("all-reduce", "collective"),
        ),
        ("slice", ("", ""), None),
        ("async", ("%async-start.7 = " + OFFLOADED.format("start", "async_slice"), ""), None),
    ],
)
def test_an_async_pair_of_a_chrome_trace_is_no_compute(pair, texts, found, tmp_path):
    """By names alone, and by their instructions. A slice is a copy."""
    begun, ended = (
        text.replace("%a ", f"%{pair}-start.7 ").replace("%b ", f"%{pair}-done.7 ")
        for text in texts
    )
    if "async-start(" in begun:
        ended = "%async-done.7 = f32[8] async-done(((f32[8]), f32[8], u32[]) %async-start.7)"
    told = [({"long_name": text} if text else {}) for text in (begun, ended)]
    events = [
        *named(3, "/device:TPU:0", t2="XLA Modules", t3="XLA Ops"),
        event("jit_f(77)", 0, 300, 3, 2, args={"run_id": "5"}),
        event(f"{pair}-start.7", 10, 5, 3, 3, args=told[0]),
        event("fusion.1", 20, 100, 3, 3, args={}),
        event(f"{pair}-done.7", 130, 20, 3, 3, args=told[1]),
    ]
    path = write(tmp_path / "h.trace.json.gz", gzip.compress(document(*events)))
    ingest_paths([path], str(tmp_path / "w"), name="x")
    with Warehouse(str(tmp_path / "w")) as warehouse:
        sql = "select kind, start_ps, duration_ps from collectives"
        kind = None if found is None else "all-reduce" if pair == "all-reduce" else found[0]
        assert warehouse.query(sql).rows == ([] if found is None else [(kind, 10 * PS, 140 * PS)])
        sql = "select distinct category from ops where op not like 'fusion%'"
        assert warehouse.query(sql).rows == [("copy" if found is None else found[1],)]


# The collectives of the program (make_jax_cpu8.py); f32[64,256] over tp,
# and so on; 8 devices run each 6 times.
JAX_KINDS = {
    "psum.7": "all-reduce",
    "all_gather.3": "all-gather",
    "reduce_scatter.7": "reduce-scatter",
    "ppermute.3": "collective-permute",
    "all-to-all": "all-to-all",
}
JAX_DUMP = """HloModule jit_f, is_scheduled=true, num_partitions=8

ENTRY %main (x: f32[64,256]) -> f32[64,256] {
  %x = f32[64,256] parameter(0)
  OTHERS
  ROOT %psum.7 = f32[64,256] all-reduce(%x), channel_id=1, replica_groups=[2,4]<=[8], use_global_device_ids=true
}
"""  # noqa: E501


def jax_collectives(tmp_path, **options):
    path = CASES.parent / "foreign" / "jax_0_10_cpu_chrome"
    ingest_paths([str(path)], str(tmp_path / "w"), name="x", **options)
    with Warehouse(str(tmp_path / "w")) as warehouse:
        sql = "select op, kind, payload_bytes, group_size, count(*) from collectives group by all"
        return {op: facts for op, *facts in warehouse.query(sql).rows}, codes(warehouse)


def test_a_cpu_exports_names_tell_its_collectives(tmp_path):
    found, issues = jax_collectives(tmp_path)
    assert found == {op: [kind, None, None, 48] for op, kind in JAX_KINDS.items()}
    assert {"category_inferred", "no_hlo"} <= issues


def dumped(tmp_path, without=""):
    ops = json.loads(
        gzip.decompress(next((CASES.parent / "foreign").rglob("vm.trace.json.gz")).read_bytes())
    )
    names = {
        told["hlo_op"] for row in ops["traceEvents"] if "hlo_op" in (told := row.get("args") or {})
    }
    others = [f"%{name} = f32[8] negate(%x)" for name in sorted(names - {"psum.7", without})]
    path = tmp_path / "module_0001.jit_f.cl_1.after_optimizations.txt"
    path.write_text(JAX_DUMP.replace("OTHERS", "\n  ".join(others)))
    return str(path)


def test_a_dump_of_the_module_that_ops_name_is_used_without_launches(tmp_path):
    found, issues = jax_collectives(tmp_path, hlo_dump=dumped(tmp_path))
    # The dump says that only psum.7 is a collective: f32[64,256] among four devices.
    assert found == {"psum.7": ["all-reduce", 64 * 256 * 4, 4, 48]}
    assert not {"no_hlo", "category_inferred", "hlo_dump_unused"} & issues


def test_a_dump_that_lacks_an_op_of_the_module_is_not_used(tmp_path):
    found, issues = jax_collectives(tmp_path, hlo_dump=dumped(tmp_path, "ynn_fusion"))
    assert len(found) == 5
    assert {"no_hlo", "hlo_dump_ambiguous"} <= issues


def test_a_pallas_kernel_that_communicates_leaves_the_split_open(tmp_path):
    with ingested("pallas_kernel_with_ici", tmp_path) as warehouse:
        sql = "select distinct window_ps, compute_ps, collective_ps, exposed_ps, idle_ps from device_time"
        # fusion.1 for 100 and the kernel for 400: busy throughout.
        assert warehouse.query(sql).rows == [(500 * PS, None, None, None, 0)]
        sql = "select comm_compute_ratio, exposed_ratio from comm_compute"
        assert warehouse.query(sql).rows == [(None, None)]
        sql = "select comm_compute_ratio, exposed_ratio from run_summary"
        assert warehouse.query(sql).rows == [(None, None)]
        sql = "select distinct communicating_ps from device_steps"
        assert warehouse.query(sql).rows == [(400 * PS,)]
        sql = "select count, message from issues where code = 'kernel_communicates'"
        ((count, message),) = warehouse.query(sql).rows
        assert count == 6  # three launches on two devices
        assert "fused_ep_moe" in message


def test_a_dynamic_dimension_makes_the_payload_a_bound(tmp_path):
    with ingested("bounded_dynamic_shape", tmp_path) as warehouse:
        sql = "select distinct op, payload_bytes, payload_is_bound from collectives order by op"
        # bf16[<=128,1024] and bf16[64,1024]
        assert warehouse.query(sql).rows == [
            ("all-gather.7", 262144, True),
            ("all-reduce.1", 131072, False),
        ]
        assert "size_bound" in codes(warehouse)


def test_a_send_of_which_only_the_name_is_known_leaves_the_split_open(tmp_path):
    """It may be of a collective between slices, as Megascale carries them, or of a transfer to the host."""
    events = [
        *named(3, "/device:TPU:0", t2="XLA Modules", t3="XLA Ops"),
        event("jit_f(77)", 0, 300, 3, 2, args={"run_id": "5"}),
        event("fusion.1", 0, 100, 3, 3, args={}),
        event("send.1", 100, 20, 3, 3, args={}),
    ]
    path = write(tmp_path / "h.trace.json.gz", gzip.compress(document(*events)))
    ingest_paths([path], str(tmp_path / "w"), name="x")
    with Warehouse(str(tmp_path / "w")) as warehouse:
        sql = "select compute_ps, collective_ps, exposed_ps, busy_ps, idle_ps from device_time"
        assert warehouse.query(sql).rows == [(None, None, None, 120 * PS, 0)]
        ((message,),) = warehouse.query(
            "select message from issues where code = 'kernel_communicates'"
        ).rows
        assert ": send;" in message
