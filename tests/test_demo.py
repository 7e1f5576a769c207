"""The demo's numbers make sense: from real torch_xla runs to the rows of the views.

Sizes: 4 layers, hidden 512, vocabulary 4096, f32; batch 4, prompt 64, 12 output tokens, 2 requests. A step
all-reduces [tokens, hidden] once for the vocabulary-sharded embedding and twice a layer (METRICS,
Expectation), and gathers the logits of the last token: [batch, vocabulary].
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kept import audited
from tests.shell_sessions import commands, replay
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.warehouse import Warehouse

pytestmark = pytest.mark.xdist_group("capture")

REQUESTS, DECODE_STEPS, DEVICES = 2, 11, 4
REDUCES_A_STEP = 1 + 2 * 4
# parallelism -> (devices along tp, sequences that a device holds)
CELLS = {"tp4": (4, 4), "dp2.tp2": (2, 2)}
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def warehouse(demo_traces, tmp_path_factory):
    root = str(tmp_path_factory.mktemp("demo") / "warehouse")
    ingest_paths([str(demo_traces)], root)
    return Warehouse(root)


def expected_volume(parallelism):
    """(phase, kind) -> (collectives, payload, wire) of each device, by hand from the sizes above."""
    n, batch = CELLS[parallelism]
    volume = {}
    for phase, steps, tokens in (
        ("prefill", REQUESTS, batch * 64),
        ("decode", REQUESTS * DECODE_STEPS, batch),
    ):
        reduced, gathered = tokens * 512 * 4, batch * 4096 * 4
        count = steps * REDUCES_A_STEP
        volume[phase, "all-reduce"] = (count, count * reduced, count * 2 * (n - 1) / n * reduced)
        volume[phase, "all-gather"] = (steps, steps * gathered, steps * (n - 1) / n * gathered)
    return volume


@pytest.mark.parametrize("parallelism", CELLS)
def test_volume_is_what_the_sizes_predict(warehouse, parallelism):
    found = warehouse.query(
        """
        select device_id, axis, phase, kind, collectives, payload_bytes, wire_bytes
        from traffic_volume_v1 join runs using (run_id) where parallelism = $parallelism
        """,
        {"parallelism": parallelism},
    ).rows
    assert {row[1] for row in found} == {"tp"}  # nothing on dp, nothing unclassified
    assert {row[0]: 0 for row in found} == dict.fromkeys(range(DEVICES), 0)
    for device in range(DEVICES):
        mine = {(row[2], row[3]): tuple(row[4:]) for row in found if row[0] == device}
        assert mine == expected_volume(parallelism)


def test_traffic_is_what_model_and_mesh_expect(warehouse):
    """All-reduces and all-gathers along tp, in prefill and decode, of both runs, and nothing else."""
    found = warehouse.query("select axis, kind, ratio from expected_traffic_v1").rows
    assert sorted(found) == [("tp", "all-gather", 1.0)] * 4 + [("tp", "all-reduce", 1.0)] * 4


def test_example_by_hand(warehouse):
    """tp4, decode: 198 all-reduces of f32[4,512] = 8192 bytes among 4: wire 2 x 3/4 x 8192 = 12288 each."""
    assert expected_volume("tp4")["decode", "all-reduce"] == (198, 1_622_016, 2_433_024.0)


@pytest.mark.parametrize(
    ("parallelism", "groups"), [("tp4", [[0, 1, 2, 3]]), ("dp2.tp2", [[0, 1], [2, 3]])]
)
def test_groups(warehouse, parallelism, groups):
    found = warehouse.query(
        """
        select distinct g.group_index, list(g.device_id order by g.position) as members
        from replica_groups g join runs using (run_id)
        where parallelism = $parallelism group by run_id, program_id, op, g.group_index
        """,
        {"parallelism": parallelism},
    ).rows
    assert sorted(members for _, members in found) == groups


@pytest.mark.parametrize("parallelism", CELLS)
def test_every_instance_has_all_its_participants(warehouse, parallelism):
    found = warehouse.query(
        """
        select distinct participants_seen, group_size
        from collective_bandwidth_v3 join runs using (run_id) where parallelism = $parallelism
        """,
        {"parallelism": parallelism},
    ).rows
    n, _ = CELLS[parallelism]
    assert found == [(n, n)]


@pytest.mark.parametrize("parallelism", CELLS)
def test_latency_agrees_with_the_host_clock(warehouse, parallelism):
    """Mean against mean: the host clock's values are means over the run's requests."""
    ((requests, ttft, tpot, host_ttft, host_tpot, source),) = warehouse.query(
        """
        select count(*), avg(ttft_s), avg(tpot_s), min(l.measured_ttft_s), min(l.measured_tpot_s),
            min(l.source)
        from latency_v3 l join runs using (run_id) where parallelism = $parallelism
        """,
        {"parallelism": parallelism},
    ).rows
    assert (requests, source) == (REQUESTS, "marker")
    assert ttft == pytest.approx(host_ttft, rel=0.2)
    assert tpot == pytest.approx(host_tpot, rel=0.2)


@pytest.mark.parametrize("parallelism", CELLS)
def test_layers_and_components_reach_the_tables(warehouse, parallelism):
    found = warehouse.query(
        """
        select layer, component, count(*) from collectives join runs using (run_id)
        where parallelism = $parallelism and phase = 'decode' and device_id = 0 group by all
        """,
        {"parallelism": parallelism},
    ).rows
    steps = REQUESTS * DECODE_STEPS
    expected = {(layer, part): steps for layer in range(4) for part in ("attention", "mlp")}
    expected |= {(None, "embedding"): steps, (None, "head"): steps}
    assert {(layer, part): count for layer, part, count in found} == expected


def test_setups_differ_and_devices_are_deduced(warehouse):
    runs = warehouse.query("select status, setup, device_count, measured_ttft_s from runs").rows
    assert [(row[0], row[2]) for row in runs] == [("complete", DEVICES)] * 2
    assert len({row[1] for row in runs}) == 2
    (inferred,) = warehouse.query("select distinct inferred from devices").rows
    assert inferred == (True,)
    codes = {code for (code,) in warehouse.query("select distinct code from issues").rows}
    # On a loaded machine a program may start so late that its device cannot be determined.
    assert codes - {"device_ambiguous"} == {"device_inferred"}


@pytest.mark.parametrize(
    ("page", "heading", "count"), [("README.md", "A session", 5), ("reports/TUTORIAL.md", "7. ", 4)]
)
def test_sessions_on_the_demo_are_real(
    warehouse, tmp_path, monkeypatch, capsys, page, heading, count
):
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "warehouse").symlink_to(warehouse.root)
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text("utf-8").partition(f"\n## {heading}")[2].partition("\n## ")[0]
    session = commands(text)
    assert len(session) == count
    replay(session, monkeypatch, capsys)


def test_audits_find_nothing(warehouse):
    assert audited(warehouse) == []
