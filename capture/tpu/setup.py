"""Steps that a Google Cloud project needs once, before its first TPU VM."""

from __future__ import annotations

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.tpu.gcloud import Gcloud
from xlahouse.capture.tpu.vm import Announce

SERVICE = "tpu.googleapis.com"
NETWORK, SUBNETWORK = "tpu-net", "tpu-subnet"
RANGE = "10.10.0.0/16"  # addresses of the subnetwork: one a host
INSIDE = "tcp,udp,icmp"  # what the hosts of a slice say to one another


def steps(zone: str) -> list[tuple[str, ...]]:
    """gcloud's commands: the TPU service and its identity, a network in the zone's region, ssh."""
    region = zone.rpartition("-")[0]
    on_network = f"--network={NETWORK}"
    firewall = ("compute", "firewall-rules", "create")
    return [
        ("services", "enable", SERVICE),
        ("beta", "services", "identity", "create", f"--service={SERVICE}"),
        ("compute", "networks", "create", NETWORK, "--subnet-mode=custom", "--mtu=8896"),
        (
            *("compute", "networks", "subnets", "create", SUBNETWORK),
            *(on_network, f"--region={region}", f"--range={RANGE}"),
        ),
        (*firewall, f"{NETWORK}-ssh", on_network, "--allow=tcp:22"),
        (
            *firewall,
            f"{NETWORK}-inside",
            on_network,
            f"--allow={INSIDE}",
            f"--source-ranges={RANGE}",
        ),
    ]


def set_up(gcloud: Gcloud, say: Announce) -> None:
    """Run the steps; what exists already stays as it is.

    Raises:
        CaptureError: gcloud is missing, or a step failed.
    """
    for words in steps(gcloud.zone):
        try:
            gcloud.set_up(*words)
        except CaptureError as error:
            if "already exists" not in str(error):
                raise
            say(f"{words[words.index('create') + 1]}: exists already")
