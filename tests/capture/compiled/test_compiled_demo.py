"""The demo's last step, really compiled: Qwen3-32B's decode step at its real size, for a v6e-8.

By hand: 64 layers of hidden 5120, vocabulary 151,936, 8 heads of keys and values of 128, bfloat16; 8
sequences on 8 devices. An all-reduce of [8, 5120] for the embedding and two a layer, an all-gather of the
logits [8, 151936].
"""

from __future__ import annotations

import pytest

from tests.later import needs
from xlahouse.sql.cli.demo_steps import COMPILED_QUERIES, compile_demo
from xlahouse.sql.warehouse import Warehouse

REDUCED, GATHERED = 8 * 5120 * 2, 8 * 151_936 * 2


@pytest.mark.verify
@needs("torch", "torch_xla", "transformers", "jax", "libtpu")
def test_the_program_of_a_real_model(tmp_path, capsys):
    compile_demo(tmp_path)
    with Warehouse(tmp_path / "warehouse") as warehouse:
        traffic, memory = (warehouse.query(sql).dicts() for sql in COMPILED_QUERIES)
    assert [tuple(row.values()) for row in traffic] == [
        ("tp", "all-gather", 8, 1, GATHERED * 7 // 8),
        ("tp", "all-reduce", 8, 1 + 2 * 64, (1 + 2 * 64) * 2 * 7 * REDUCED // 8),
    ]
    [found] = memory
    assert found["cache_bytes"] == 64 * 2 * 8 * (512 + 129) * 128 * 2
    assert found["weight_bytes"] == pytest.approx(32_762_123_264 * 2 / 8, rel=1e-3)
    assert (found["fits"], found["device_bytes"]) == (True, 32 << 30)
    assert ".program.html" in capsys.readouterr().out
