"""JSON that is no JSON, no UTF-8, or nested without end is one line, at every file that holds some."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tests.ingest.compiled_build import write_compiled
from tests.ingest.traces import tpu_trace, write
from tests.test_rooms import ROOT, modules
from xlahouse.capture import serving
from xlahouse.capture.errors import ManifestError, XlahouseError
from xlahouse.capture.manifest import decode_manifest
from xlahouse.capture.models.checkpoint_config import _read
from xlahouse.ingest.run import IngestError, ingest_paths
from xlahouse.ingest.store.settings import read_settings, settings_path
from xlahouse.ingest.store.store import Store
from xlahouse.ingest.tables.model_facts import model_facts

DEPTH = 100_000
DAMAGED = {
    "depth": b'{"a":' * DEPTH + b"1" + b"}" * DEPTH,
    "lists": b"[" * DEPTH + b"]" * DEPTH,
    "text": b"{",
    "UTF-8": b'"\xff"',
}
# What an answer of a program of ours is, and no file of a user.
OWN = {"capture/run/process.py", "capture/tpu/gcloud.py", "capture/decoding.py"}


def manifest(raw, folder):
    decode_manifest(raw, "metadata_1.json")


def arrivals(raw, folder):
    (folder / "a.jsonl").write_bytes(raw)
    serving._read(folder / "a.jsonl")


def settings(raw, folder):
    write(folder / "w" / "settings" / "r.json", raw)
    assert settings_path(str(folder / "w"), "r").endswith("r.json")
    read_settings(str(folder / "w"), "r")


def warehouse(raw, folder):
    write(folder / "w" / "warehouse.json", raw)
    Store(str(folder / "w")).check_layout()


def facts_of_a_compiled_run(raw, folder):
    (write_compiled(folder / "t") / "compiled.json").write_bytes(raw)
    ingest_paths([str(folder / "t")], str(folder / "w"))


def checkpoint(raw, folder):
    (folder / "config.json").write_bytes(raw)
    _read(folder)


DOORS = (manifest, arrivals, settings, warehouse, facts_of_a_compiled_run, checkpoint)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_json_is_one_line(door, damage, tmp_path):
    with pytest.raises(XlahouseError) as caught:
        door(DAMAGED[damage], tmp_path)
    assert "Error: " not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_damaged_lease_is_no_lease(tmp_path):
    write(tmp_path / "leases" / "x.json", DAMAGED["depth"])
    assert Store(str(tmp_path)).leases() == {}


def test_a_manifest_without_end_costs_its_run(tmp_path):
    write(tmp_path / "trace_1.trace" / "h.xplane.pb", tpu_trace(1))
    write(tmp_path / "metadata_1.json", DAMAGED["lists"])
    write(tmp_path / "good.xplane.pb", tpu_trace())
    with pytest.raises(IngestError, match=r"metadata_1\.json: .*correct the field") as caught:
        ingest_paths([str(tmp_path)], str(tmp_path / "w"))
    assert [result.name for result in caught.value.results] == ["good"]


REAL = Path(__file__).parents[1] / "cases" / "setup" / "repeat0.json"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("parameters", 1 << 70),
        ("weight_bytes", -1),
        ("mesh_device_ids", [1 << 63]),
        ("mesh", [{"axis": "tp", "size": 1 << 20}, {"axis": "pp", "size": 1 << 20}]),
        ("layers", 1 << 53),
        ("model_config", {"n_routed_experts": 1 << 40}),
    ],
)
def test_a_number_of_a_manifest_that_no_run_has_is_one_line(field, value):
    """Larger ones overflow columns, and the places of a mesh are listed."""
    facts = json.loads(REAL.read_bytes())
    decode_manifest(json.dumps(facts).encode(), "metadata_1.json")
    with pytest.raises(ManifestError, match=rf"metadata_1\.json: .*{field}.*correct the field"):
        decode_manifest(json.dumps(facts | {field: value}).encode(), "metadata_1.json")


def test_sizes_of_a_manifest_whose_product_no_machine_holds_are_one_line():
    facts = json.loads(REAL.read_bytes()) | dict.fromkeys(("batch_size", "layers"), 1 << 24)
    with pytest.raises(ManifestError, match=r"batch_size, tokens, hidden_size and layers"):
        decode_manifest(json.dumps(facts | {"hidden_size": 1 << 20}).encode(), "metadata_1.json")


@pytest.mark.parametrize(
    "config",
    [
        {"mlp_only_layers": 7, "num_experts": 8},
        {"layer_types": [{"a": 1}], "num_attention_heads": 2},
        {"num_attention_heads": 0, "vocab_size": 9},
    ],
)
def test_a_configuration_of_other_types_is_unknown(config):
    facts = json.loads(REAL.read_bytes())
    changed = facts | {"model_config": facts["model_config"] | config}
    found = model_facts(decode_manifest(json.dumps(changed).encode(), "metadata_1.json"))
    assert found["parameters"] == facts["parameters"]


def test_every_decoding_knows_all_ways_to_fail():
    """What catches only msgspec's own error lets deep nesting through as a traceback."""
    wrong = []
    for path in modules().values():
        name = str(path.relative_to(ROOT))
        caught = [
            ast.unparse(node.type)
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.ExceptHandler) and node.type is not None
        ]
        if name not in OWN and any("msgspec.DecodeError" in types for types in caught):
            wrong.append(name)
    assert wrong == []
