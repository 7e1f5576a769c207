"""The manifest: written whole, read back equal, refused where it is wrong; the mesh's notation."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from xlahouse.capture.errors import ManifestError
from xlahouse.capture.manifest import (
    DECODE,
    PREFILL,
    REQUEST,
    WARMUP,
    Manifest,
    MeshAxis,
    RequestTiming,
    decode_manifest,
    manifest_path,
    parse_mesh,
    write_manifest,
)

MANIFEST = Manifest(
    name="a",
    captured_at="2026-01-01T00:00:00+00:00",
    framework="torch_xla",
    framework_versions={"torch": "2.9.0"},
    model="tiny",
    model_family="qwen3",
    model_config={"hidden_size": 512},
    weights="random:0",
    layers=2,
    hidden_size=512,
    dtype="float32",
    batch_size=1,
    prompt_tokens=4,
    output_tokens=3,
    parallelism="tp2",
    mesh=[MeshAxis("tp", 2)],
    mesh_device_ids=[0, 1],
    device_kind="cpu",
    device_count=2,
    warmup_requests=2,
    requests=[
        RequestTiming(request=0, ttft_s=0.5, step_s=[0.1, 0.3]),
        RequestTiming(request=1, ttft_s=0.7, step_s=[0.4, 0.4]),
    ],
    tokens=[[1, 2, 3]],
)


def test_reads_back_what_was_written_and_leaves_no_draft(tmp_path):
    path = tmp_path / "metadata_1.json"
    write_manifest(MANIFEST, path)
    assert decode_manifest(path.read_bytes(), str(path)) == MANIFEST
    assert list(tmp_path.iterdir()) == [path]


def test_measured_times_are_means_over_requests():
    assert MANIFEST.measured_ttft_s == pytest.approx(0.6)  # (0.5 + 0.7) / 2
    assert MANIFEST.measured_tpot_s == pytest.approx(0.3)  # ((0.1 + 0.3) / 2 + 0.4) / 2


def test_tpot_is_unknown_with_one_output_token():
    timing = RequestTiming(request=0, ttft_s=0.5, step_s=[])
    assert timing.tpot_s is None
    assert msgspec.structs.replace(MANIFEST, requests=[timing]).measured_tpot_s is None


def test_a_wrong_manifest_names_file_and_field():
    raw = msgspec.json.encode(MANIFEST).replace(b'"layers":2', b'"layers":"two"')
    with pytest.raises(
        ManifestError, match=r"m\.json: Expected `int`, got `str` - at `\$\.layers`"
    ):
        decode_manifest(raw, "m.json")


def test_manifest_lies_beside_its_trace():
    assert manifest_path(Path("x/trace_1.5.trace")) == Path("x/metadata_1.5.json")
    with pytest.raises(ManifestError, match="not a capture"):
        manifest_path(Path("x/.trace_1.trace.partial"))


def test_markers_are_named_by_the_grammar():
    assert (REQUEST, PREFILL, DECODE, WARMUP) == (
        "xlahouse.request",
        "xlahouse.prefill",
        "xlahouse.decode",
        "xlahouse.warmup",
    )


def test_mesh_notation():
    assert parse_mesh("dp=2, tp=4") == [MeshAxis("dp", 2), MeshAxis("tp", 4)]
    for bad in ("", "tp", "tp=0", "tp=x", "tp=2,tp=2", "2=tp"):
        with pytest.raises(ManifestError, match="mesh"):
            parse_mesh(bad)
