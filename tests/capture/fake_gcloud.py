#!/usr/bin/env python3
"""Stands in for gcloud: records its calls, keeps TPU VMs as folders, and plays what a zone does.

Its folder ($FAKE_GCLOUD) holds `calls.jsonl` (argv of each call), `play.json` (see `play` in
zone.py) and, while a TPU VM exists, `vm.json` and a home folder for each of its hosts.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(os.environ["FAKE_GCLOUD"])


def main(words):
    with (ROOT / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps(words) + "\n")
    if words[:2] != ["compute", "tpus"]:
        fail(f"Invalid choice: {words[0]}")
    noun, verb, name = words[2:5]
    options = dict(
        word.removeprefix("--").split("=", 1) if "=" in word else (word.removeprefix("--"), "")
        for word in words[5:]
        if word.startswith("--")
    )
    plain = [word for word in words[4:] if not word.startswith("--")]
    DO[noun, verb](name, options, plain)


def fail(reason):
    print(f"ERROR: ({' '.join(sys.argv[1:5])}) {reason}", file=sys.stderr)
    sys.exit(1)


def play():
    return json.loads((ROOT / "play.json").read_text())


def keep(vm):
    (ROOT / "vm.json").write_text(json.dumps(vm))


def vm_named(name):
    path = ROOT / "vm.json"
    vm = json.loads(path.read_text()) if path.exists() else {}
    if vm.get("name") != name:
        fail(f"NOT_FOUND: Resource '{name}' was not found")
    return vm


def create(name, options, plain):
    if (ROOT / "vm.json").exists():
        fail(f"ALREADY_EXISTS: Resource '{name}' already exists")
    states, born = play()["states"], ROOT / "born"
    life = int(born.read_text()) if born.exists() else 0
    born.write_text(str(life + 1))
    keep({"name": name, "states": states, "options": options, "life": life, "captures": 0})
    for host in range(play()["hosts"]):
        home = ROOT / f"host{host}"
        shutil.rmtree(home, ignore_errors=True)
        (home / ".xlahouse" / "venv" / "bin").mkdir(parents=True)
        for tool in ("python", "xlahouse"):
            shutil.copy(ROOT / "tools" / tool, home / ".xlahouse" / "venv" / "bin" / tool)


def describe_request(name, options, plain):
    vm = vm_named(name)
    state = vm["states"][0]
    vm["states"] = vm["states"][1:] or vm["states"]
    keep(vm)
    node = {
        "acceleratorType": vm["options"]["accelerator-type"],
        "runtimeVersion": vm["options"]["runtime-version"],
        "networkConfig": {"network": vm["options"].get("network", "default")},
    }
    request = {"state": {"state": state}, "tpu": {"nodeSpec": [{"node": node}]}}
    print(json.dumps(request | ({"spot": {}} if "spot" in vm["options"] else {})))


def describe_vm(name, options, plain):
    vm = vm_named(name)
    state = "PREEMPTED" if vm.get("taken") else "READY"
    hosts = [{"ipAddress": f"10.0.0.{host}"} for host in range(play()["hosts"])]
    print(json.dumps({"state": state, "networkEndpoints": hosts}))


def is_due(vm):
    """Whether a TPU VM is taken away in its next capture."""
    lives = play().get("captures_a_life", [])
    return vm["life"] < len(lives) and vm["captures"] >= lives[vm["life"]]


def hosts_of(options):
    worker = options["worker"]
    count = play()["hosts"]
    return range(count) if worker == "all" else [int(worker)]


def ssh(name, options, plain):
    vm = vm_named(name)
    captures = "xlahouse capture" in options["command"]
    if vm.get("taken") or (captures and is_due(vm)):
        keep(vm | {"taken": True})
        fail("Instance is not reachable")
    for host in hosts_of(options):
        home = ROOT / f"host{host}"
        paths = f"{ROOT / 'tools'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", options["command"]],
            cwd=home,
            env={**os.environ, "HOME": str(home), "FAKE_HOST": f"host{host}", "PATH": paths},
        )
        if done.returncode:
            fail(f"Worker {host} ended with code {done.returncode}")
    if captures:
        keep(vm | {"captures": vm["captures"] + 1})


def scp(name, options, plain):
    *files, target = plain
    name, _, folder = target.partition(":")
    vm_named(name)
    for host in hosts_of(options):
        for file in files:
            place = ROOT / f"host{host}" / folder
            if not place.is_dir():
                fail(f"scp: {place.name}: No such file or directory")
            shutil.copy(file, place)


def delete(name, options, plain):
    vm_named(name)
    (ROOT / "vm.json").unlink()


DO = {
    ("queued-resources", "create"): create,
    ("queued-resources", "describe"): describe_request,
    ("queued-resources", "delete"): delete,
    ("tpu-vm", "describe"): describe_vm,
    ("tpu-vm", "ssh"): ssh,
    ("tpu-vm", "scp"): scp,
}
if __name__ == "__main__":
    main(sys.argv[1:])
