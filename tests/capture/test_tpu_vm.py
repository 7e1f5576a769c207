"""Creation of TPU VMs, and gcloud's own errors."""

from __future__ import annotations

import pytest

from tests.capture.zone import ZONE, calls, create, play
from xlahouse.capture.errors import CaptureError, ManifestError
from xlahouse.capture.tpu.gcloud import failure


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


def test_gclouds_own_reason_is_passed_on():
    said = "WARNING: x\nERROR: (gcloud.compute) PERMISSION_DENIED: no\nUpdates are available.\n"
    text = failure(["tpu-vm", "ssh", "vm"], said)
    assert text == "gcloud tpu-vm ssh failed: (gcloud.compute) PERMISSION_DENIED: no"


def test_without_gcloud_the_error_says_what_to_install(zone, monkeypatch):
    monkeypatch.setenv("PATH", str(zone.folder))
    with pytest.raises(CaptureError, match="gcloud is not on the PATH"):
        create(zone)
