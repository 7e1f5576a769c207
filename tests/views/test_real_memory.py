"""Memory of programs in real traces, worked out from the shapes in their HLO."""

from __future__ import annotations

from xlahouse.sql import Warehouse

WEIGHT = 5 * 1024 * 1024 * 256 * 4  # f32[5,1024,1024,256]


def test_a_program_that_fetches_its_weights_from_the_host(sample_warehouse):
    """Three weights are in the host's memory, and come back into it.

    The first fusion runs as its weight is read (at 7), with the other two on their way and a result of the
    same size: four in HBM, two tuples of 32 bytes of the copies under way, and the tuple that is returned.
    """
    sql = """
        select memory, argument_bytes, output_bytes, alias_bytes, peak_bytes, peak_op
        from program_memory where module = 'jit_f' and memory <> 'other' order by memory
    """
    with Warehouse(str(sample_warehouse("tpu/v6e_4dev_jax_psum_offload.xplane.pb"))) as warehouse:
        assert warehouse.query(sql).rows == [
            ("HBM", 0, 32, 0, 4 * WEIGHT + 2 * 32 + 32, "broadcast_add_fusion.2"),
            ("host", 3 * WEIGHT, 3 * WEIGHT, 3 * WEIGHT, 3 * WEIGHT, "param"),
        ]
        scopes = """
            select kind, scope, bytes from memory_at_peak
            where module = 'jit_f' and memory = 'host' order by scope
        """
        assert warehouse.query(scopes).rows == [
            ("argument", f"ws[{number}]", WEIGHT) for number in range(3)
        ]


def test_two_layers_on_virtual_devices(sample_warehouse):
    """One temporary value, between the layers: f32[64,1024], as large as the result."""
    sql = """
        select memory, argument_bytes, output_bytes, temporary_bytes, peak_bytes, total_bytes, peak_op
        from program_memory
    """
    result, pointer = 64 * 1024 * 4, 8
    with Warehouse(str(sample_warehouse("cpu/torch_xla_mlp_4dev.xplane.pb"))) as warehouse:
        ((memory, given, out, temporary, peak, total, op),) = warehouse.query(sql).rows
    assert (memory, out, temporary, op) == ("host", result + pointer, result, "dot.1")
    assert peak == total == given + out + temporary
