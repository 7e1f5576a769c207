"""Creation of TPU VMs, and gcloud's own errors."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.capture.zone import ZONE, calls, create, play
from xlahouse.capture.errors import CaptureError, ManifestError
from xlahouse.capture.tpu.gcloud import Gcloud, failure
from xlahouse.capture.tpu.setup import set_up


def test_create_waits_until_it_is_active_and_says_each_state_once(zone):
    play(zone, ["WAITING_FOR_RESOURCES", "WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE"])
    create(zone)
    first = calls(zone)[0]
    assert first[:3] == ["queued-resources", "create", "vm"]
    wanted = {"--node-id=vm", "--accelerator-type=v6e-8", "--runtime-version=v2-alpha-tpuv6e"}
    wanted |= {"--spot", "--valid-until-duration=6h", f"--zone={ZONE}", "--quiet"}
    assert wanted == set(first[3:])
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


def test_gclouds_own_reason_is_passed_on():
    said = "WARNING: x\nERROR: (gcloud.compute) PERMISSION_DENIED: no\nUpdates are available.\n"
    text = failure(["tpu-vm", "ssh", "vm"], said)
    assert text == "gcloud tpu-vm ssh failed: (gcloud.compute) PERMISSION_DENIED: no"


def test_without_gcloud_the_error_says_what_to_install(zone, monkeypatch):
    monkeypatch.setenv("PATH", str(zone.folder))
    with pytest.raises(CaptureError, match="gcloud is not on the PATH"):
        create(zone)


def test_a_project_is_set_up_once_and_what_exists_stays(zone):
    shown = []
    gcloud = Gcloud(ZONE, "p", shown.append)
    set_up(gcloud, zone.lines.append)
    assert shown == [
        "gcloud services enable tpu.googleapis.com --quiet --project=p",
        "gcloud beta services identity create --service=tpu.googleapis.com --quiet --project=p",
        "gcloud compute networks create tpu-net --subnet-mode=custom --mtu=8896 --quiet --project=p",
        "gcloud compute networks subnets create tpu-subnet --network=tpu-net --region=us-east1 "
        "--range=10.10.0.0/16 --quiet --project=p",
        "gcloud compute firewall-rules create tpu-net-ssh --network=tpu-net --allow=tcp:22 --quiet "
        "--project=p",
        "gcloud compute firewall-rules create tpu-net-inside --network=tpu-net --allow=tcp,udp,icmp "
        "--source-ranges=10.10.0.0/16 --quiet --project=p",
    ]
    ran = [json.loads(line) for line in (zone.root / "calls.jsonl").read_text().splitlines()]
    assert [shlex.join(["gcloud", *words]) for words in ran] == shown
    assert zone.lines == []
    set_up(gcloud, zone.lines.append)
    names = ("tpu-net", "tpu-subnet", "tpu-net-ssh", "tpu-net-inside")
    assert zone.lines == [f"{name}: exists already" for name in names]


def test_the_fake_refuses_what_gcloud_would(zone):
    gcloud = Gcloud(ZONE)
    with pytest.raises(CaptureError, match="unrecognized arguments: --valid-for=6h"):
        gcloud.run("queued-resources", "create", "vm", "--valid-for=6h")
    with pytest.raises(CaptureError, match="unrecognized arguments: --spot=yes"):
        gcloud.run("queued-resources", "create", "vm", "--spot=yes")
    with pytest.raises(CaptureError, match="--accelerator-type: Must be specified"):
        gcloud.run("queued-resources", "create", "vm", "--node-id=vm", "--runtime-version=x")
