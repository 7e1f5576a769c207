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


# Command -> (its flags with a value, those without), from its page of Google Cloud's reference
# (cloud.google.com/sdk/gcloud/reference/…, general availability; `beta` for the service's identity).
SSH = (
    "worker zone command output-directory ssh-flag ssh-key-file strict-host-key-checking "
    "ssh-key-expiration ssh-key-expire-after"
)
FLAGS = {
    "compute tpus queued-resources create": (
        "zone runtime-version accelerator-type topology type node-id node-count node-prefix boot-disk "
        "data-disk description labels metadata metadata-from-file network range scopes service-account "
        "subnetwork tags valid-after-duration valid-after-time valid-until-duration valid-until-time "
        "reservation-host-folder reservation-host-organization reservation-host-project",
        "async guaranteed internal-ips reserved shielded-secure-boot spot",
    ),
    "compute tpus queued-resources describe": ("zone", ""),
    "compute tpus queued-resources delete": ("zone", "async force"),
    "compute tpus tpu-vm describe": ("zone", ""),
    "compute tpus tpu-vm ssh": (SSH, "dry-run force-key-file-overwrite internal-ip plain"),
    "compute tpus tpu-vm scp": (
        "worker zone scp-flag ssh-key-file strict-host-key-checking ssh-key-expiration "
        "ssh-key-expire-after",
        "compress dry-run force-key-file-overwrite internal-ip plain recurse",
    ),
    "services enable": ("", "async"),
    "beta services identity create": ("service folder organization", ""),
    "compute networks create": (
        "bgp-routing-mode description internal-ipv6-range mtu network-firewall-policy-enforcement-order "
        "network-profile range resource-manager-tags subnet-mode",
        "enable-ula-internal-ipv6",
    ),
    "compute networks subnets create": (
        "network description purpose range region role secondary-range stack-type",
        "enable-flow-logs enable-private-ip-google-access",
    ),
    "compute firewall-rules create": (
        "action allow description destination-ranges direction network priority rules source-ranges "
        "source-service-accounts source-tags target-service-accounts target-tags",
        "disabled enable-logging",
    ),
}
WIDE = (
    "access-token-file account billing-project configuration flags-file flatten format "
    "impersonate-service-account project trace-token verbosity",
    "help log-http quiet user-output-enabled",
)
NEEDED = {
    "compute tpus queued-resources create": {"runtime-version", "accelerator-type", "node-id"},
    "beta services identity create": {"service"},
    "compute networks subnets create": {"network", "range"},
}


def main(words):
    with (ROOT / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps(words) + "\n")
    plain = [word for word in words if not word.startswith("--")]
    length = next((n for n in range(len(plain), 1, -1) if " ".join(plain[:n]) in FLAGS), 0)
    command, plain = " ".join(plain[:length]), plain[length:]
    if not length:
        fail(f"Invalid choice: {words[0]}")
    options = {}
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.removeprefix("--").partition("=")
            with_value, without = (
                set(f"{a} {b}".split()) for a, b in zip(FLAGS[command], WIDE, strict=True)
            )
            if name not in (with_value if equals else without):
                fail(f"unrecognized arguments: {word}")
            options[name] = value
    if missing := NEEDED.get(command, set()) - set(options):
        fail(f"argument --{min(missing)}: Must be specified.")
    noun, verb = command.split()[-2:]
    if (noun, verb) in DO:
        DO[noun, verb](plain[0], options, plain)
    else:
        make(command, plain)


def make(command, plain):
    """A thing of the project, which may exist once only."""
    path = ROOT / "project.json"
    made = json.loads(path.read_text()) if path.exists() else []
    if command.startswith("compute") and [command, *plain] in made:
        fail(f"The resource '{plain[0]}' already exists")
    path.write_text(json.dumps([*made, [command, *plain]]))


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
        for file in map(Path, files):
            place = ROOT / f"host{host}" / folder
            if not place.is_dir():
                fail(f"scp: {place.name}: No such file or directory")
            if file.is_dir() and "recurse" not in options:
                fail(f"scp: {file}: not a regular file")
            if file.is_dir():
                shutil.copytree(file, place / file.name, dirs_exist_ok=True)
            else:
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
