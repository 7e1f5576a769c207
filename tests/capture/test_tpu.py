"""TPU VMs: what may be asked for, and whole runs against a gcloud that only plays its part."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.command import run_command
from xlahouse.capture.errors import CaptureError, ManifestError
from xlahouse.capture.slices import parse_slice
from xlahouse.capture.tpu import run as tpu_run
from xlahouse.capture.tpu import vm
from xlahouse.capture.tpu.gcloud import Gcloud, failure
from xlahouse.capture.tpu.package import source_folder
from xlahouse.capture.tpu.quota import check_quota, read_quota

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
import os, sys
from pathlib import Path
import msgspec
sys.path.insert(0, {repository!r})
from tests.capture.test_manifest import MANIFEST
from xlahouse.capture.manifest import write_manifest
from xlahouse.capture.runner import choose_experiments

def option(name):
    return sys.argv[sys.argv.index(name) + 1]

if option("--experiment") in os.environ.get("BROKEN", "").split():
    sys.exit("RESOURCE_EXHAUSTED: Attempting to allocate 32.00G")
print("it goes on")
(chosen,) = choose_experiments(Path(sys.argv[2]), (option("--experiment"),))
cell = Path(option("--traces")) / chosen.cell
trace = cell / f"trace_{{option('--stamp')}}.trace"
plane = trace / "plugins" / "profile" / "session" / f"{{os.environ['FAKE_HOST']}}.xplane.pb"
plane.parent.mkdir(parents=True)
plane.write_bytes(os.environ["FAKE_HOST"].encode())
entry = msgspec.json.decode(msgspec.json.encode(chosen))
manifest = msgspec.structs.replace(MANIFEST, plan_entry=entry, flags={{"PJRT_DEVICE": "TPU"}})
write_manifest(manifest, cell / f"metadata_{{option('--stamp')}}.json")
(cell / ".trace_0.trace.partial").mkdir()
(cell / ".trace_0.trace.partial" / "half").write_text("half")
"""


@pytest.fixture
def zone(tmp_path, monkeypatch):
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
        place.write_text(text)
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

    wanted = vm.Wanted(name, parse_slice(kind), spot=True)
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


# v4 and v5p count two TensorCores a chip, the others chips; sizes of one host as Google has them.
@pytest.mark.parametrize(
    ("text", "chips", "accelerator_type", "hosts"),
    [
        ("v4-8", 4, "v4-8", 1),
        ("v4-32", 16, "v4-32", 4),
        ("v5e-1", 1, "v5litepod-1", 1),
        ("v5litepod-16", 16, "v5litepod-16", 4),
        ("v5p-128", 64, "v5p-128", 16),
        ("v6e-8", 8, "v6e-8", 1),
        ("V6E-64", 64, "v6e-64", 16),
    ],
)
def test_types_are_counted_as_google_cloud_counts_them(text, chips, accelerator_type, hosts):
    parsed = parse_slice(text)
    assert (parsed.chips, parsed.accelerator_type, parsed.hosts) == (chips, accelerator_type, hosts)


@pytest.mark.parametrize("text", ["v4-4", "v4-9", "v6e-2", "v6e-0", "v9-8", "tpu", "v6e-8x8", ""])
def test_other_types_are_refused(text):
    with pytest.raises(CaptureError, match="no TPU type"):
        parse_slice(text)


def test_the_shipped_quota_is_the_customers():
    rows = {(grant.type, grant.zone, grant.chips, grant.spot) for grant in read_quota()}
    assert rows == {
        ("v6e", "us-east1-d", 64, True),
        ("v6e", "europe-west4-a", 64, True),
        ("v4", "us-central2-b", 32, False),
        ("v4", "us-central2-b", 32, True),
        ("v5e", "us-central1-a", 64, True),
        ("v5e", "europe-west4-b", 64, True),
    }


# 32 chips of v4 are v4-64.
@pytest.mark.parametrize(
    ("kind", "zone", "spot", "allowed"),
    [
        ("v6e-64", "us-east1-d", True, True),
        ("v6e-128", "us-east1-d", True, False),
        ("v6e-8", "us-east1-d", False, False),
        ("v6e-8", "us-central1-a", True, False),
        ("v4-64", "us-central2-b", False, True),
        ("v4-128", "us-central2-b", True, False),
        ("v5p-8", "us-central2-b", True, False),
    ],
)
def test_only_what_the_quota_has_may_be_asked_for(kind, zone, spot, allowed):
    if allowed:
        check_quota(parse_slice(kind), zone, spot, read_quota())
        return
    with pytest.raises(ManifestError, match=r"not in the quota, which has .* or --force it"):
        check_quota(parse_slice(kind), zone, spot, read_quota())


@pytest.mark.parametrize(
    "text",
    [
        "quota: []",
        "quota: [{type: v6e}]",
        "quota: [{type: v6e, zone: z, chips: 0, spot: yes}]",
        "a: [",
        "",
    ],
)
def test_a_wrong_quota_file_is_one_line(tmp_path, text):
    path = tmp_path / "quota.yaml"
    path.write_text(text)
    with pytest.raises(ManifestError, match=r"a quota file lists grants as") as caught:
        read_quota(path)
    assert "\n" not in str(caught.value)


def test_create_waits_until_it_is_active_and_says_each_state_once(zone):
    play(zone, ["WAITING_FOR_RESOURCES", "WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE"])
    create(zone)
    first = calls(zone)[0]
    assert first[:3] == ["queued-resources", "create", "vm"]
    wanted = {"--node-id=vm", "--accelerator-type=v6e-8", "--runtime-version=v2-alpha-tpuv6e"}
    assert wanted | {"--spot", f"--zone={ZONE}", "--quiet"} == set(first[3:])
    assert zone.waits == 3
    assert zone.lines == [
        "vm: v6e-8 is 8 spot v6e chips in us-east1-d on 1 host: 8 chip-hours in 1 hour",
        "vm: WAITING_FOR_RESOURCES",
        "vm: PROVISIONING",
        "vm: ACTIVE",
    ]


@pytest.mark.parametrize("state", ["FAILED", "SUSPENDED"])
def test_a_request_that_fails_says_how_to_ask_again(zone, state):
    play(zone, ["WAITING_FOR_RESOURCES", state])
    with pytest.raises(
        CaptureError, match=f"vm is {state}: .*xlahouse tpu delete vm --zone {ZONE}"
    ):
        create(zone)


def test_what_the_quota_refuses_is_never_asked_for(zone):
    with pytest.raises(ManifestError):
        create(zone, "v6e-128")
    assert not (zone.root / "calls.jsonl").exists()


def test_a_run_brings_every_hosts_traces_home_without_half_ones(zone):
    play(zone, hosts=2)
    create(zone)
    folders = run(zone)
    assert len(folders) == 3
    for folder in folders:
        planes = sorted(path.name for path in folder.rglob("*.xplane.pb"))
        assert planes == ["host0.xplane.pb", "host1.xplane.pb"]
    traces = zone.folder / "traces"
    assert not list(traces.rglob("*.partial"))
    assert not list(traces.glob(".fetch-*"))
    assert "  it goes on" in zone.lines
    plan, wheel = zone.root / "host1" / ".xlahouse" / "plan.yaml", "xlahouse-0.1.0-py3-none-any.whl"
    assert plan.read_text() == PLAN
    install = next(words for words in calls(zone) if any("pip install" in word for word in words))
    assert any(f"{wheel}[capture,tpu]" in word for word in install)


def test_a_second_run_captures_nothing_again(zone):
    create(zone)
    first = run(zone)
    before = len(calls(zone))
    assert run(zone) == first
    assert len(calls(zone)) == before


def test_a_vm_that_is_taken_away_costs_one_experiment_and_says_so(zone):
    play(zone, captures_a_life=[1])
    create(zone)
    with pytest.raises(
        CaptureError, match=r"vm was taken away with 2 of 3 experiments to go; .*--recreate"
    ):
        run(zone)
    assert len(list((zone.folder / "traces").rglob("metadata_*.json"))) == 1


def test_a_run_goes_on_on_a_new_vm_of_the_same_kind(zone):
    play(zone, captures_a_life=[1, 1])
    create(zone)
    assert len(run(zone, recreate=2)) == 3
    creations = [words for words in calls(zone) if words[:2] == ["queued-resources", "create"]]
    assert len(creations) == 3
    assert {*creations[1], "--network=default"} == {*creations[0], "--network=default"}
    captured = [words for words in calls(zone) if any(" --experiment " in word for word in words)]
    names = [
        word.split(" --experiment ")[1].split()[0]
        for w in captured
        for word in w
        if " --experiment " in word
    ]
    assert names == ["a", "b", "b", "c", "c"]


def test_an_experiment_that_fails_costs_itself(zone, monkeypatch):
    monkeypatch.setenv("BROKEN", "b")
    create(zone)
    with pytest.raises(CaptureError, match=r"experiment b: gcloud tpu-vm ssh failed: .*Worker 0"):
        run(zone)
    assert "  RESOURCE_EXHAUSTED: Attempting to allocate 32.00G" in zone.lines
    assert len(list((zone.folder / "traces").rglob("metadata_*.json"))) == 2


def test_nothing_runs_on_a_vm_that_is_not_there_or_not_ready(zone):
    with pytest.raises(CaptureError, match=f"no TPU VM vm in {ZONE}"):
        run(zone)
    play(zone, ["ACTIVE", "PROVISIONING"])
    create(zone)
    with pytest.raises(CaptureError, match="vm is PROVISIONING; wait"):
        run(zone)


def test_a_cut_archive_is_said_and_leaves_nothing(zone):
    create(zone)
    run(zone)
    tar = zone.root / "tools" / "tar"
    tar.write_text('#!/bin/sh\n/usr/bin/env -i /bin/tar "$@" | head -c 100\n')
    tar.chmod(0o755)
    other = zone.folder / "elsewhere"
    with pytest.raises(CaptureError, match="not a whole archive"):
        tpu_run.fetch(zone.gcloud, "vm", other)
    assert list(other.iterdir()) == []


def test_gclouds_own_reason_is_passed_on():
    said = "WARNING: x\nERROR: (gcloud.compute) PERMISSION_DENIED: no\nUpdates are available.\n"
    text = failure(["tpu-vm", "ssh", "vm"], said)
    assert text == "gcloud tpu-vm ssh failed: (gcloud.compute) PERMISSION_DENIED: no"


def test_without_gcloud_the_error_says_what_to_install(zone, monkeypatch):
    monkeypatch.setenv("PATH", str(zone.folder))
    with pytest.raises(CaptureError, match="gcloud is not on the PATH"):
        create(zone)


def command(monkeypatch, *words):
    return run_command(monkeypatch, "tpu", *words)


def test_a_dry_run_prints_the_commands_and_runs_none(zone, monkeypatch, capsys):
    words = ("create", "vm", "--type", "v4-32", "--zone", "us-central2-b", "--on-demand")
    assert command(monkeypatch, *words, "--hours", "3", "--project", "p", "--dry-run") == 0
    out, err = capsys.readouterr()
    assert out == (
        "gcloud compute tpus queued-resources create vm --node-id=vm --accelerator-type=v4-32 "
        "--runtime-version=tpu-ubuntu2204-base --zone=us-central2-b --quiet --project=p\n"
    )
    assert "16 on-demand v4 chips in us-central2-b on 4 hosts: 48 chip-hours in 3 hours" in err
    plan = str(zone.folder / "plan.yaml")
    assert command(monkeypatch, "run", "vm", plan, "--zone", ZONE, "--dry-run") == 0
    assert capsys.readouterr().out.count("xlahouse capture plan.yaml --experiment") == 3
    assert command(monkeypatch, "delete", "vm", "--zone", ZONE, "--dry-run") == 0
    assert "queued-resources delete vm --force" in capsys.readouterr().out
    assert not (zone.root / "calls.jsonl").exists()


def test_the_command_line_goes_the_whole_way(zone, monkeypatch, capsys):
    monkeypatch.chdir(zone.folder)
    monkeypatch.setenv("XLAHOUSE_TPU_ZONE", ZONE)
    assert command(monkeypatch, "create", "vm", "--type", "v6e-4") == 0
    assert "xlahouse tpu delete vm" in capsys.readouterr().err
    wheel = str(next(zone.folder.glob("*.whl")))
    assert (
        command(monkeypatch, "run", "vm", "plan.yaml", "--install", wheel, "--experiment", "a") == 0
    )
    (folder,) = capsys.readouterr().out.splitlines()
    assert Path(folder).is_dir()
    assert command(monkeypatch, "fetch", "vm", "--traces", "again") == 0
    (manifest,) = capsys.readouterr().out.splitlines()
    assert Path(manifest).is_file()
    assert command(monkeypatch, "delete", "vm", "--yes") == 0
    assert command(monkeypatch, "delete", "vm", "--yes") == 1
    assert "NOT_FOUND" in capsys.readouterr().err


def test_the_checkout_is_found():
    folder = source_folder()
    assert folder is None or (folder / "capture" / "tpu_package.py").is_file()
