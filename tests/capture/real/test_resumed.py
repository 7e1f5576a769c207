"""The core plan, scaled down, killed in the midst and run again: it goes on where it was."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from tests.conftest import DEMO_PLAN
from tests.later import needs
from xlahouse.capture.manifest import decode_manifest

pytestmark = [
    pytest.mark.verify(together=True),
    needs("torch", "torch_xla"),
    pytest.mark.xdist_group("capture"),
]
SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
}


def scaled_core():
    """The first experiments of core.yaml: one mesh, two batches, two of three repeats, on two devices."""
    plan = yaml.safe_load(DEMO_PLAN.with_name("core.yaml").read_text())
    first = plan["experiments"][0]
    model = first["model"] | {"config": SMALL}
    own = {
        "model": model,
        "mesh": [{"tp": 2}],
        "batch_size": [2, 4],
        "prompt_tokens": [4],
        "slice": "",
    }
    plan["experiments"] = [first | own]
    plan["defaults"] |= {"repeats": 2, "output_tokens": 3, "warmup_requests": 1}
    return yaml.safe_dump(plan)


def capture(folder, kill_at=None):
    """Lines of a run, as (experiment, event); it is killed at the n-th that was captured."""
    command = (sys.executable, "-c", "from xlahouse.sql.cli import main; main()", "capture")
    options = ("--traces", str(folder / "t"), "--device", "cpu")
    lines = []
    with subprocess.Popen(
        (*command, str(folder / "core.yaml"), *options), stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr:
            name, event, *_ = [*line.split(": "), ""]
            if event in ("captured", "skipped", "failed"):
                lines.append((name, event))
            if kill_at and len(lines) == kill_at:
                process.kill()
                break
    return lines


def test_a_run_that_was_killed_repeats_no_experiment_and_compiles_nothing_twice(tmp_path):
    (tmp_path / "core.yaml").write_text(scaled_core())
    before = capture(tmp_path, kill_at=3)
    after = capture(tmp_path)
    captured = [name for name, event in before + after if event == "captured"]
    assert [event for _, event in before] == ["captured"] * 3
    assert [event for _, event in after] == ["skipped"] * 3 + ["captured"]
    assert len(captured) == len(set(captured)) == 4
    paths = sorted((tmp_path / "t").rglob("metadata_*.json"))
    manifests = [decode_manifest(path.read_bytes(), str(path)) for path in paths]
    ran = sorted(manifests, key=lambda manifest: manifest.captured_at)
    assert [manifest.name for manifest in ran] == captured
    # The last one's process is another, and its batch is the third's: PJRT's CPU client loads no programs.
    assert [manifest.jobs_before for manifest in ran] == [0, 1, 2, 0]
    compiled = [manifest.programs_compiled for manifest in ran]
    assert compiled[0] >= 2
    assert compiled[1] == 0
    assert compiled[2] >= 2
