"""What the platform says about its devices: their kind, and where their chips are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

PCI = Path("/sys/bus/pci/devices")
_GOOGLE = "0x1ae0"
# PCI device -> its kind as PJRT names it. torch_xla asks PJRT only outside SPMD mode.
_KINDS = {
    "0x005e": "TPU v4",
    "0x0063": "TPU v5 lite",
    "0x006f": "TPU v6 lite",
    "0x0076": "TPU7x",
}


class DeviceAttributes(TypedDict, total=False):
    """The runtime's attributes of a device; virtual devices have no coords."""

    name: str  # such as TPU:3, with the device's ordinal
    coords: list[int]  # of the chip, [x, y, z]
    slice_index: int  # slice of TPUs that it is in; a runtime may leave it out where there is one
    device_kind: str  # such as TPU v6 lite


def by_ordinal(attributes: Sequence[DeviceAttributes]) -> list[DeviceAttributes]:
    """The devices in the order of the ordinals in their names; the runtime lists them in any."""

    def ordinal(device: DeviceAttributes) -> int:
        found = re.search(r":(\d+)$", device.get("name", ""))
        return int(found[1]) if found else 0

    return sorted(attributes, key=ordinal)


def device_coords(attributes: Sequence[DeviceAttributes]) -> list[list[int]]:
    """Coordinates of each device's chip, by ordinal; [] if the runtime lacks those of a device."""
    found = [list(device.get("coords", ())) for device in attributes]
    known = all(len(coords) in (2, 3) and min(coords) >= 0 for coords in found)
    return found if known else []


def device_slices(attributes: Sequence[DeviceAttributes]) -> list[int]:
    """Slice of each device, by ordinal; [] if the runtime lacks that of a device."""
    found = [device.get("slice_index", -1) for device in attributes]
    return found if all(number >= 0 for number in found) else []


def device_kind(attributes: Sequence[DeviceAttributes], platform: str, pci: Path = PCI) -> str:
    """`cpu`, or the kind of the chips: the runtime's word, else by PCI; else the platform's name."""
    if platform.upper() == "CPU":
        return "cpu"
    stated = attributes[0].get("device_kind") if attributes else None
    if stated:
        return stated
    for folder in sorted(pci.glob("*")):
        vendor, device = (_read(folder / name) for name in ("vendor", "device"))
        if vendor == _GOOGLE and device in _KINDS:
            return _KINDS[device]
    return platform


def compiler_notes(mesh: Mapping[str, int], kind: str) -> list[str]:
    """What the compiler of these chips is known to change in the collectives of a mesh.

    Source: libtpu 0.0.21's programs for v4, which `xlahouse compile` shows.
    """
    if mesh.get("sp", 1) == 1 or not re.search(r"\bv4\b", kind):
        return []
    return [
        "sp on v4: its compiler makes all-reduces of the prefill's reduce-scatters, which send twice the "
        "bytes; compare sp on v5e or v6e, or use tp here"
    ]


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
