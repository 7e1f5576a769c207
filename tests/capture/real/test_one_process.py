"""Experiments that share a process, captured for real: each is as it would be in a process of its own."""

from __future__ import annotations

import pytest

from tests.later import needs
from xlahouse.capture.manifest import decode_manifest, manifest_path
from xlahouse.capture.run.runner import run_plan
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.warehouse import Warehouse

pytestmark = [
    pytest.mark.verify(together=True),
    needs("torch", "torch_xla"),
    pytest.mark.xdist_group("capture"),
]
# The mesh of `other` lies between two experiments of one mesh; ep deals tokens to experts of a batch's size.
PLAN = """
defaults: {prompt_tokens: 8, output_tokens: 4, requests: 1, warmup_requests: 1}
experiments:
  - name: small
    model: &v3
      name: v3
      preset: deepseek-v3.1-base
      config:
        {vocab_size: 64, hidden_size: 32, num_hidden_layers: 2, intermediate_size: 64,
         moe_intermediate_size: 16, num_attention_heads: 4, num_key_value_heads: 4, n_routed_experts: 4,
         num_experts_per_tok: 2, kv_lora_rank: 16, q_lora_rank: 16, qk_nope_head_dim: 8,
         qk_rope_head_dim: 8, v_head_dim: 8, first_k_dense_replace: 1, n_group: 2, topk_group: 1}
    mesh: {ep: 2, tp: 2}
    batch_size: 4
    repeats: 2
  - name: other
    model: {name: q, preset: qwen3-demo, config: {num_hidden_layers: 2, vocab_size: 64}}
    mesh: {pp: 2}
    batch_size: 2
    microbatches: 2
  - {name: large, model: *v3, mesh: {ep: 2, tp: 2}, batch_size: 8, prompt_tokens: 12, key_block: 5}
"""


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    """Names of the experiments in the order of their captures, their manifests, and their traces."""
    base = tmp_path_factory.mktemp("one_process")
    (base / "plan.yaml").write_text(PLAN)
    order = []

    def listen(event):
        if event.kind == "captured":
            order.append(event.experiment)

    traces = run_plan(base / "plan.yaml", base / "t", device="cpu", on_event=listen)
    paths = [manifest_path(trace) for trace in traces]
    return order, [decode_manifest(path.read_bytes(), str(path)) for path in paths], traces


def test_experiments_of_one_mesh_run_in_one_process_and_compile_once(captured):
    order, manifests, _ = captured
    first, again, other, large = (manifest.name for manifest in manifests)
    assert order == [first, again, large, other]
    assert [manifest.jobs_before for manifest in manifests] == [0, 1, 0, 2]
    by_name = {manifest.name: manifest for manifest in manifests}
    assert by_name[again].programs_compiled == 0  # a repeat of programs that the process has
    assert by_name[large].programs_compiled >= 2


def test_tokens_are_those_of_the_unsharded_model(captured):
    assert [manifest.tokens_match_unsharded for manifest in captured[1]] == [True] * 4


def test_a_run_has_its_own_programs_and_the_traffic_of_its_own_sizes(captured, tmp_path):
    """A later run has its prefill and its decode step, and of those before it only what it launched."""
    _, (first, again, _, large), traces = captured
    ingest_paths([str(trace) for trace in traces], str(tmp_path / "w"))
    with Warehouse(str(tmp_path / "w")) as warehouse:
        programs = dict(
            warehouse.query(
                "select name, count(distinct program_id) from instructions join runs using (run_id)"
                " group by all"
            ).rows
        )
        ratios = warehouse.query("select distinct ratio from expected_traffic_v1").rows
    assert (programs[again.name], programs[large.name]) == (2, 2)
    assert programs[first.name] > 2  # also those that place its weights
    assert ratios == [(1.0,)]
