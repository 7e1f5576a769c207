"""Creates and deletes TPU VMs, as queued resources: asked for once, granted when there are chips."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.slices import Slice, parse_slice
from xlahouse.capture.tpu.gcloud import GONE, Gcloud
from xlahouse.capture.tpu.quota import Grant, check_quota, pricing

POLL_S = 20.0
Say = Callable[[str], None]
Pause = Callable[[], None]


@dataclass(frozen=True)
class Wanted:
    """A TPU VM to create. runtime: None: the generation's own; the rest are gcloud's own options."""

    name: str
    slice: Slice
    spot: bool
    runtime: str | None = None
    network: str | None = None
    subnetwork: str | None = None
    service_account: str | None = None

    @property
    def words(self) -> list[str]:
        """The gcloud words that ask for it."""
        options = {
            "network": self.network,
            "subnetwork": self.subnetwork,
            "service-account": self.service_account,
        }
        return [
            "queued-resources",
            "create",
            self.name,
            f"--node-id={self.name}",
            f"--accelerator-type={self.slice.accelerator_type}",
            f"--runtime-version={self.runtime or self.slice.generation.runtime}",
            *(["--spot"] if self.spot else []),
            *(f"--{name}={value}" for name, value in options.items() if value),
        ]


def wait_a_while() -> None:
    """Until the state of a TPU VM is worth another look."""
    time.sleep(POLL_S)


def create(
    gcloud: Gcloud,
    wanted: Wanted,
    grants: list[Grant] | None,
    wait: bool,
    hours: float,
    say: Say,
    pause: Pause,
) -> None:
    """Ask for a TPU VM and, with `wait`, return when it can be used.

    Args:
        gcloud: runs or prints the commands.
        wanted: what to ask for.
        grants: the quota; None: whatever it costs.
        wait: whether to wait for the chips.
        hours: how long it is to live, for the estimate of its cost.
        say: told each new state.
        pause: called between two looks at the state.

    Raises:
        ManifestError: the quota has no such chips.
        CaptureError: gcloud failed, or the request did.
    """
    if grants is not None:
        check_quota(wanted.slice, gcloud.zone, wanted.spot, grants)
    say(f"{wanted.name}: {cost(wanted.slice, wanted.spot, gcloud.zone, hours)}")
    gcloud.run(*wanted.words)
    if wait and not gcloud.dry:
        wait_until_active(gcloud, wanted.name, say, pause)


def cost(asked: Slice, spot: bool, zone: str, hours: float) -> str:
    """What a slice uses up, in chip-hours."""
    chips = f"{asked.chips} {pricing(spot)} {asked.generation.name} chips in {zone}"
    hosts = f"{asked.hosts} host{'s' if asked.hosts > 1 else ''}"
    total = f"{asked.chips * hours:g} chip-hours in {hours:g} hour{'s' if hours != 1 else ''}"
    return f"{asked.accelerator_type} is {chips} on {hosts}: {total}"


def wait_until_active(gcloud: Gcloud, name: str, say: Say, pause: Pause) -> None:
    """Return when the TPU VM can be used.

    Raises:
        CaptureError: the request failed, was taken back, or is not there.
    """
    said = ""
    while True:
        state = state_of(gcloud, name)
        if state != said:
            say(f"{name}: {state}")
            said = state
        if state == "ACTIVE":
            return
        if state in {"FAILED", *GONE}:
            raise CaptureError(
                f"{name} is {state}: the chips were not granted, or were taken away; "
                f"`xlahouse tpu delete {name} --zone {gcloud.zone}`, then create it again"
            )
        pause()


def state_of(gcloud: Gcloud, name: str) -> str:
    """Such as WAITING_FOR_RESOURCES, ACTIVE or SUSPENDED; PREEMPTED where only its VM is gone.

    Raises:
        CaptureError: there is no such TPU VM in the zone.
    """
    request = described(gcloud, name)
    state = request.get("state")
    text = str(state.get("state", "UNKNOWN") if isinstance(state, dict) else state or "UNKNOWN")
    if text != "ACTIVE":
        return text
    node = gcloud.describe("tpu-vm", name) or {}
    return str(node["state"]) if node.get("state") in GONE else text


def described(gcloud: Gcloud, name: str) -> dict[str, Any]:
    """The queued resource as gcloud describes it.

    Raises:
        CaptureError: there is none of that name in the zone.
    """
    request = gcloud.describe("queued-resources", name)
    if request is None:
        raise CaptureError(
            f"no TPU VM {name} in {gcloud.zone}; "
            f"`xlahouse tpu create {name} --zone {gcloud.zone}` makes one"
        )
    return request


def as_it_was(gcloud: Gcloud, name: str) -> Wanted:
    """What a TPU VM was created as, so that it can be created again.

    Raises:
        CaptureError: there is none, or gcloud does not tell.
    """
    request = described(gcloud, name)
    try:
        node = request["tpu"]["nodeSpec"][0]["node"]
        asked, runtime = parse_slice(node["acceleratorType"]), str(node["runtimeVersion"])
    except (KeyError, IndexError, TypeError) as error:
        raise CaptureError(f"gcloud does not tell what {name} was created as") from error
    network = node.get("networkConfig") or {}
    return Wanted(
        name,
        asked,
        spot="spot" in request,
        runtime=runtime,
        network=network.get("network"),
        subnetwork=network.get("subnetwork"),
        service_account=(node.get("serviceAccount") or {}).get("email"),
    )


def workers_of(gcloud: Gcloud, name: str) -> int:
    """How many hosts the TPU VM has."""
    node = gcloud.describe("tpu-vm", name) or {}
    return max(1, len(node.get("networkEndpoints") or []))


def delete(gcloud: Gcloud, name: str) -> None:
    """Delete the TPU VM with its request; what is on its disks is gone.

    Raises:
        CaptureError: gcloud failed; a TPU VM that is not there is said, too.
    """
    gcloud.run("queued-resources", "delete", name, "--force")
