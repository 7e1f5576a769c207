"""Which planes are finished together."""

from __future__ import annotations

from xlahouse.ingest.events.frames import Device, PlaneEvents
from xlahouse.ingest.tables.device_tables import BATCH_BYTES, batches


def plane(*numbers: int, size: int = 1) -> PlaneEvents:
    devices = [
        Device(number, f"/device:TPU:{number}", "TPU v4", "tensorcore") for number in numbers
    ]
    return PlaneEvents(devices=devices, bytes=size)


def devices_of(planes: list[PlaneEvents]) -> list[list[int]]:
    return [
        [device.device_id for plane in batch for device in plane.devices]
        for batch in batches(planes)
    ]


def test_hosts_by_name_are_not_devices_by_number():
    half = BATCH_BYTES // 2
    planes = [plane(), plane(0, 1, size=half), plane(8, size=half), plane(10, size=half)]
    planes += [plane(3, 2, size=half), plane()]
    assert devices_of(planes) == [[0, 1], [3, 2, 8], [10]]


def test_no_batch_has_two_large_planes():
    planes = [plane(5, size=2 * BATCH_BYTES), plane(1, size=3 * BATCH_BYTES), plane(9)]
    assert devices_of(planes) == [[1], [5], [9]]
    assert devices_of([]) == [[]]
