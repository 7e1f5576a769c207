"""The kind and the coordinates of devices, as their platform states them."""

from __future__ import annotations

import pytest

from tests.chips import COORDS, LISTED
from xlahouse.capture.run.devices import (
    by_ordinal,
    compiler_notes,
    device_coords,
    device_kind,
    device_slices,
)


def test_attributes_are_those_of_the_ordinal_and_not_of_the_place_in_the_list():
    listed = [
        {"name": "TPU:10", "coords": [1, 1, 0]},
        {"name": "TPU:2", "coords": [0, 1, 0]},
        {"name": "TPU:0", "coords": [0, 0, 0]},
    ]
    assert device_coords(by_ordinal(listed)) == [[0, 0, 0], [0, 1, 0], [1, 1, 0]]


def test_all_chips_of_an_8x8_slice_are_where_they_are():
    """By place in the list 48 of the 64 would be elsewhere."""
    listed = [{"name": f"TPU:{number}", "coords": COORDS[number]} for number in LISTED]
    assert sum(each["coords"] != right for each, right in zip(listed, COORDS, strict=True)) == 48
    assert device_coords(by_ordinal(listed)) == COORDS


@pytest.mark.parametrize(
    ("attributes", "slices"),
    [
        ([{"name": "TPU:1", "slice_index": 1}, {"name": "TPU:0", "slice_index": 0}], [0, 1]),
        (
            [{"name": "TPU:0", "slice_index": 0}, {"name": "TPU:1"}],
            [],
        ),  # says nothing of one device
        ([{"name": "TPU:0"}], []),
        ([{"name": "TPU:0", "slice_index": -1}], []),
        ([], []),
    ],
)
def test_slices_are_those_that_the_runtime_tells_of_all_devices(attributes, slices):
    assert device_slices(by_ordinal(attributes)) == slices


@pytest.mark.parametrize(
    ("device", "kind"),
    [("0x005e", "TPU v4"), ("0x0063", "TPU v5 lite"), ("0x006f", "TPU v6 lite"), ("0x9999", "TPU")],
)
def test_the_kind_of_a_chip_is_read_from_pci_where_the_runtime_does_not_tell(
    tmp_path, device, kind
):
    for name, vendor, number in (("0", "0x8086", "0x0063"), ("1", "0x1ae0", device)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "device").write_text(f"{number}\n")
    assert device_kind([{"name": "TPU:0"}], "TPU", tmp_path) == kind
    assert device_kind([{"device_kind": "TPU v5p"}], "TPU", tmp_path) == "TPU v5p"
    assert device_kind([{"name": "CPU:0"}], "CPU", tmp_path) == "cpu"


def test_sp_on_v4_says_that_its_compiler_makes_all_reduces():
    (note,) = compiler_notes({"sp": 8}, "TPU v4")
    assert note.startswith("sp on v4: its compiler makes all-reduces")
    assert compiler_notes({"sp": 8}, "v4") == [note]  # as a slice's generation is called
    assert compiler_notes({"tp": 8, "sp": 1}, "TPU v4") == []
    assert compiler_notes({"sp": 8}, "TPU v5 lite") == []
    assert compiler_notes({"sp": 8}, "cpu") == []
