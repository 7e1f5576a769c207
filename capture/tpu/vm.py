"""Creates and deletes TPU VMs as queued resources: requested once, granted when chips are free."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.slices import Slice, parse_slice
from xlahouse.capture.tpu.gcloud import GONE, Gcloud
from xlahouse.capture.tpu.quota import Grant, check_quota, pricing

POLL_S = 20.0
Announce = Callable[[str], None]
Pause = Callable[[], None]


class NetworkConfig(msgspec.Struct, frozen=True):
    """A TPU VM's network, by gcloud's own names."""

    network: str | None = None  # None: the default
    subnetwork: str | None = None  # None: the network's own


class ServiceAccount(msgspec.Struct, frozen=True):
    """The account that programs on a TPU VM act as."""

    email: str | None = None  # its address


class TpuNode(msgspec.Struct, frozen=True, rename="camel"):
    """A TPU VM as gcloud describes it; only the fields that are used."""

    state: str | None = None  # such as READY or PREEMPTED
    accelerator_type: str | None = None  # such as v6e-8
    runtime_version: str | None = None  # of its software
    network_config: NetworkConfig | None = None  # None: the default
    network_endpoints: list[dict[str, object]] | None = None  # one a host
    service_account: ServiceAccount | None = None  # None: the project's default


class NodeSpec(msgspec.Struct, frozen=True):
    """A TPU VM that a queued resource requests."""

    node: TpuNode = TpuNode()  # as it will be created


class NodeSpecs(msgspec.Struct, frozen=True, rename="camel"):
    """The TPU VMs that a queued resource requests: one."""

    node_spec: list[NodeSpec] = []  # one item


class ResourceState(msgspec.Struct, frozen=True):
    """State of a request for chips."""

    state: str | None = None  # such as ACTIVE


class QueuedResource(msgspec.Struct, frozen=True):
    """A request for chips as gcloud describes it; only the fields that are used."""

    state: ResourceState | str | None = None  # such as WAITING_FOR_RESOURCES or ACTIVE
    tpu: NodeSpecs = NodeSpecs()  # the VM
    spot: dict[str, object] | None = None  # None: on demand


@dataclass(frozen=True)
class WantedVm:
    """A TPU VM to create."""

    name: str  # of the TPU VM and its request
    slice: Slice  # its chips
    spot: bool  # spot, or on demand
    runtime: str | None = None  # software version; None: the generation's own
    network: str | None = None  # gcloud's --network
    subnetwork: str | None = None  # gcloud's --subnetwork
    service_account: str | None = None  # gcloud's --service-account
    # how long the request waits; chips that are not granted by then are never billed
    valid_for: str = "6h"

    @property
    def words(self) -> list[str]:
        """The gcloud command that requests it."""
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
            f"--valid-until-duration={self.valid_for}",
            *(f"--{name}={value}" for name, value in options.items() if value),
        ]


def wait_a_while() -> None:
    """Sleep until the next look at a TPU VM's state."""
    time.sleep(POLL_S)


def create(
    gcloud: Gcloud,
    wanted: WantedVm,
    grants: list[Grant] | None,
    wait: bool,
    hours: float,
    say: Announce,
    pause: Pause,
) -> None:
    """Request a TPU VM and, with `wait`, return when it is ready.

    Args:
        gcloud: runs or prints the commands.
        wanted: the TPU VM.
        grants: the quota; None: no limit.
        wait: whether to wait for the chips.
        hours: planned lifetime, for the cost estimate.
        say: called with each new state.
        pause: called before each next look at the state.

    Raises:
        ManifestError: the chips are not in the quota.
        CaptureError: gcloud failed, or the request did.
    """
    if grants is not None:
        check_quota(wanted.slice, gcloud.zone, wanted.spot, grants)
    say(f"{wanted.name}: {cost(wanted.slice, wanted.spot, gcloud.zone, hours)}")
    gcloud.run(*wanted.words)
    if wait and not gcloud.dry:
        wait_until_active(gcloud, wanted.name, say, pause)


def cost(asked: Slice, spot: bool, zone: str, hours: float) -> str:
    """The chip-hours of a slice."""
    chips = f"{asked.chips} {pricing(spot)} {asked.generation.name} chips in {zone}"
    hosts = f"{asked.hosts} host{'s' if asked.hosts > 1 else ''}"
    total = f"{asked.chips * hours:g} chip-hours in {hours:g} hour{'s' if hours != 1 else ''}"
    return f"{asked.accelerator_type} is {chips} on {hosts}: {total}"


def wait_until_active(gcloud: Gcloud, name: str, say: Announce, pause: Pause) -> None:
    """Return when the TPU VM is ready.

    Raises:
        CaptureError: the request failed, was preempted, or is missing.
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
                f"{name} is {state}: the chips were not granted, or were preempted; "
                f"`xlahouse tpu delete {name} --zone {gcloud.zone}`, then create it again"
            )
        pause()


def state_of(gcloud: Gcloud, name: str) -> str:
    """Such as WAITING_FOR_RESOURCES, ACTIVE or SUSPENDED; PREEMPTED if only its VM is gone.

    Raises:
        CaptureError: there is no such TPU VM in the zone.
    """
    request = described(gcloud, name)
    given = request.state
    state = (given.state if isinstance(given, ResourceState) else given) or "UNKNOWN"
    if state != "ACTIVE":
        return state
    node = gcloud.describe("tpu-vm", name, TpuNode) or TpuNode()
    return node.state if node.state in GONE else state


def described(gcloud: Gcloud, name: str) -> QueuedResource:
    """The queued resource as gcloud describes it.

    Raises:
        CaptureError: the zone has none with that name.
    """
    request = gcloud.describe("queued-resources", name, QueuedResource)
    if request is None:
        raise CaptureError(
            f"no TPU VM {name} in {gcloud.zone}; "
            f"`xlahouse tpu create {name} --zone {gcloud.zone}` makes one"
        )
    return request


def as_it_was(gcloud: Gcloud, name: str) -> WantedVm:
    """The options that a TPU VM was created with, to create it again.

    Raises:
        CaptureError: it is missing, or gcloud's description is incomplete.
    """
    request = described(gcloud, name)
    node = request.tpu.node_spec[0].node if request.tpu.node_spec else TpuNode()
    if node.accelerator_type is None or node.runtime_version is None:
        raise CaptureError(
            f"gcloud's description of {name} lacks its type or runtime version; "
            "delete the VM and create it again"
        )
    network, account = node.network_config, node.service_account
    return WantedVm(
        name,
        parse_slice(node.accelerator_type),
        spot=request.spot is not None,
        runtime=node.runtime_version,
        network=network.network if network else None,
        subnetwork=network.subnetwork if network else None,
        service_account=account.email if account else None,
    )


def workers_of(gcloud: Gcloud, name: str) -> int:
    """Number of hosts of the TPU VM."""
    node = gcloud.describe("tpu-vm", name, TpuNode) or TpuNode()
    return max(1, len(node.network_endpoints or []))


def delete(gcloud: Gcloud, name: str) -> None:
    """Delete the TPU VM with its request and its disks.

    Raises:
        CaptureError: gcloud failed, also because the TPU VM is missing.
    """
    gcloud.run("queued-resources", "delete", name, "--force")
