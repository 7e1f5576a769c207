"""Rates of real transfers against what their links allow, worked out from the sizes in their HLO."""

from __future__ import annotations

from shutil import copytree

import pytest

from tests.command import run_command
from xlahouse.sql import Warehouse

BYTES = 5 * 1024 * 1024 * 256 * 4  # f32[5,1024,1024,256], in groups of two of a v6e-8
LINK = 9e10


def test_a_real_exchange_of_two_chips(sample_warehouse):
    """S passes each of two links one after the other, and five links leave the chips of (0,2) and (0,0)."""
    with Warehouse(str(sample_warehouse("tpu/v6e_4dev_jax_psum_offload.xplane.pb"))) as warehouse:
        rows = warehouse.query(
            "select transfer_ps, ici_ps, utilization_ratio, is_impossible from collective_bandwidth_v3"
            " where transfer_ps = 121687640000"
        ).rows
    ((transfer, least, use, impossible),) = rows
    assert use == pytest.approx(BYTES / LINK / (transfer / 1e12)) == pytest.approx(0.490, abs=5e-4)
    assert least / transfer == pytest.approx(2 * BYTES / (5 * LINK) / (transfer / 1e12))
    assert least / transfer == pytest.approx(0.196, abs=5e-4)
    assert impossible is False


def test_no_real_transfer_is_faster_than_its_link(sample_warehouse, tmp_path, monkeypatch):
    """A kind that a user sets does not place two chips: 4.7 times the peak of a link is not a share of it."""
    root = str(tmp_path / "warehouse")
    copytree(sample_warehouse("tpu/vllm_qwen3_tp2.trace.json.gz"), root)
    with Warehouse(root) as warehouse:
        ((name,),) = warehouse.query("select run_id from runs").rows
    assert run_command(monkeypatch, "set", "device-kind", name, "TPU v6e", "-w", root) == 0
    with Warehouse(root) as warehouse:
        ((instances, used, most),) = warehouse.query(
            "select count(*), count(utilization_ratio), max(busbw_bytes_per_s) from collective_bandwidth_v3"
        ).rows
    assert (instances, used) == (259, 0)
    assert most / LINK == pytest.approx(4.66, abs=0.01)
