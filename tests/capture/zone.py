"""A zone of TPU VMs that a fake gcloud plays, and the words that tests say to it."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from xlahouse.capture.slices import parse_slice
from xlahouse.capture.tpu import run as tpu_run
from xlahouse.capture.tpu import vm
from xlahouse.capture.tpu.gcloud import Gcloud
from xlahouse.capture.tpu.quota import read_quota

ZONE = "us-east1-d"
PLAN = """
name: p
defaults:
  model: {name: m, preset: qwen3-demo}
  batch_size: 4
  prompt_tokens: 8
  output_tokens: 2
experiments:
  - {name: a, mesh: {tp: 4}}
  - {name: b, mesh: {dp: 4}}
  - {name: c, mesh: {dp: 2, tp: 2}}
"""
# Plays xlahouse on the TPU VM: writes what a capture leaves, one xplane a host.
TOOL = """#!{python}
import json, os, sys
from pathlib import Path
import msgspec
sys.path.insert(0, {repository!r})
from tests.capture.test_manifest import MANIFEST
from xlahouse.capture.manifest import write_manifest
from xlahouse.capture.run.runner import choose_experiments

def option(name):
    return sys.argv[sys.argv.index(name) + 1]

def capture(chosen, stamp):
    cell = Path(option("--traces")) / chosen.cell
    trace = cell / f"trace_{{stamp}}.trace"
    plane = trace / "plugins" / "profile" / "session" / f"{{os.environ['FAKE_HOST']}}.xplane.pb"
    plane.parent.mkdir(parents=True)
    plane.write_bytes(os.environ["FAKE_HOST"].encode())
    entry = msgspec.json.decode(msgspec.json.encode(chosen))
    manifest = msgspec.structs.replace(MANIFEST, plan_entry=entry, flags={{"PJRT_DEVICE": "TPU"}})
    write_manifest(manifest, cell / f"metadata_{{stamp}}.json")
    program = Path(option("--traces")) / ".programs" / "v1" / chosen.name
    print("found", sorted(path.name for path in program.parent.glob("*")))
    program.parent.mkdir(exist_ok=True)
    program.write_text("compiled")
    os.utime(program, (2**33, 2**33))  # later than whatever the clock says now
    half = cell / ".trace_0.trace.partial"
    half.mkdir(exist_ok=True)
    (half / "half").write_text("half")
    print(f"{{chosen.name}}: captured: {{trace}}", flush=True)

def take_away():
    place = Path(os.environ["FAKE_GCLOUD"], "vm.json")
    vm = json.loads(place.read_text())
    if vm["life"] == 0:
        print("it is about to be taken away", flush=True)
        place.with_name("go").read_text()  # a FIFO
        place.write_text(json.dumps(vm | {{"taken": True}}))
        sys.exit("Connection closed")

names = [after for word, after in zip(sys.argv, sys.argv[1:]) if word == "--experiment"]
broken, code = os.environ.get("BROKEN", "").split(), 0
print("it goes on")
for place, chosen in enumerate(choose_experiments(Path(sys.argv[2]), tuple(names))):
    if chosen.name == os.environ.get("TAKEN_IN"):
        take_away()
    if chosen.name in broken:
        code = "RESOURCE_EXHAUSTED: Attempting to allocate 32.00G"
    else:
        capture(chosen, f"{{option('--stamp')}}.{{place}}")
sys.exit(code)
"""


def make_zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A zone whose chips are granted at once, and whose TPU VMs have one host."""
    root = tmp_path / "gcloud"
    (root / "tools").mkdir(parents=True)
    repository = str(Path(__file__).parents[2])
    tools = {
        "gcloud": Path(__file__).with_name("fake_gcloud.py").read_text(),
        "python": "#!/bin/sh\n",
        "python3": "#!/bin/sh\n",  # on the TPU VM: pip and uv
        "xlahouse": TOOL.format(python=sys.executable, repository=repository),
    }
    for name, text in tools.items():
        place = root / ("bin" if name == "gcloud" else "tools") / name
        place.parent.mkdir(exist_ok=True)
        # without packages: a call of gcloud takes no longer than Python's start
        place.write_text(text.replace("/usr/bin/env python3", f"{sys.executable} -IS", 1))
        place.chmod(place.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("FAKE_GCLOUD", str(root))
    monkeypatch.setenv("PATH", f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "xlahouse-0.1.0-py3-none-any.whl").write_bytes(b"wheel")
    lines: list[str] = []
    zone = SimpleNamespace(root=root, folder=tmp_path, lines=lines, gcloud=Gcloud(ZONE), waits=0)
    play(zone)
    return zone


def play(zone, states=("ACTIVE",), hosts=1, captures_a_life=()):
    script = {"states": states, "hosts": hosts, "captures_a_life": captures_a_life}
    (zone.root / "play.json").write_text(json.dumps(script))


def calls(zone):
    lines = (zone.root / "calls.jsonl").read_text().splitlines()
    return [json.loads(line)[2:] for line in lines]


def create(zone, kind="v6e-8", name="vm"):
    def pause():
        zone.waits += 1

    wanted = vm.WantedVm(name, parse_slice(kind), spot=True)
    vm.create(zone.gcloud, wanted, read_quota(), True, 1.0, zone.lines.append, pause)


def run(zone, recreate=0, experiments=()):
    errand = tpu_run.Errand(
        "vm",
        zone.folder / "plan.yaml",
        experiments,
        zone.folder / "traces",
        str(next(zone.folder.glob("*.whl"))),
        recreate,
    )
    return tpu_run.run(zone.gcloud, errand, zone.lines.append, lambda: None)
