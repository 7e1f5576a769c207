"""A dump with every kind of collective, and the Chrome trace of its run, which has only the ops' names."""

from __future__ import annotations

from tests.ingest.chrome_build import document, event, named

_DUMP = """HloModule jit_f, is_scheduled=true, num_partitions=4

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(f32[] %a, f32[] %b)
}

%wrapped (p: f32[64]) -> f32[256] {
  %p = f32[64]{0} parameter(0)
  ROOT %gather = f32[256]{0} all-gather(f32[64]{0} %p), channel_id=6, replica_groups=[1,4]<=[4], dimensions={0}, use_global_device_ids=true
}

%fused (q: f32[64]) -> f32[64] {
  %q = f32[64]{0} parameter(0)
  ROOT %double = f32[64]{0} add(f32[64]{0} %q, f32[64]{0} %q)
}

ENTRY %main (x: f32[64]) -> f32[64] {
  %x = f32[64]{0} parameter(0)
  %fusion.1 = f32[64]{0} fusion(f32[64]{0} %x), kind=kLoop, calls=%fused, metadata={op_type="add" op_name="jit(f)/layers.3/mlp/add" source_file="model.py" source_line=7}, backend_config={"window_config":{"estimated_cycles":"1400"}}
  %all-reduce.1 = f32[64]{0} all-reduce(f32[64]{0} %fusion.1), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=%add, backend_config={"collective_algorithm_config":{"emitter":"RotatedPincerEmitter","strategy":"UniDirection1DRingStrategy"}}
  %all-gather.1 = f32[128]{0} all-gather(f32[64]{0} %all-reduce.1), channel_id=2, replica_groups=[2,2]<=[2,2]T(1,0), dimensions={0}, use_global_device_ids=true
  %reduce-scatter.1 = f32[32]{0} reduce-scatter(f32[128]{0} %all-gather.1), channel_id=3, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true, to_apply=%add
  %all-to-all.1 = f32[64]{0} all-to-all(f32[64]{0} %all-reduce.1), channel_id=4, replica_groups={{0,2},{1,3}}, dimensions={0}
  %collective-permute.1 = f32[64]{0} collective-permute(f32[64]{0} %all-to-all.1), channel_id=5, source_target_pairs={{0,1},{1,2},{2,3}}
  %async-start.1 = ((f32[64]{0}), f32[256]{0}, u32[]) async-start(f32[64]{0} %collective-permute.1), calls=%wrapped
  %slice-start.1 = ((f32[64]{0}), f32[8]{0}, u32[]) slice-start(f32[64]{0} %x), slice={[0:8]}
  %slice-done.1 = f32[8]{0} slice-done(((f32[64]{0}), f32[8]{0}, u32[]) %slice-start.1)
  %async-done.1 = f32[256]{0} async-done(((f32[64]{0}), f32[256]{0}, u32[]) %async-start.1)
  %custom-call.1 = f32[64]{0} custom-call(f32[64]{0} %collective-permute.1), custom_call_target="tpu_custom_call", backend_config={"custom_call_config":{"body":"x"}}
  ROOT %fusion.2 = f32[64]{0} fusion(f32[64]{0} %custom-call.1), kind=kLoop, calls=%fused, metadata={op_name="jit(f)/layers.3/self_attn/add"}
}
"""  # noqa: E501
_OPS = (
    "fusion.1", "all-reduce.1", "all-gather.1", "reduce-scatter.1", "all-to-all.1", "collective-permute.1",
    "async-start.1", "slice-start.1", "slice-done.1", "async-done.1", "custom-call.1", "fusion.2",
)  # fmt: skip


def dump() -> bytes:
    """The text of a module."""
    return _DUMP.encode()


def dumped_trace() -> bytes:
    """One execution of it on each of four devices."""
    events = []
    for device in range(4):
        pid = 3 + device
        events += named(pid, f"/device:TPU:{device}", t2="XLA Modules", t3="XLA Ops")
        events.append(event("jit_f(77)", 0, 300, pid, 2, args={"run_id": "5"}))
        events += [event(op, 20 * n, 20, pid, 3, args={}) for n, op in enumerate(_OPS)]
    return document(*events)
