"""Positions of chips come from the manifest alone, and slices from it where programs state none."""

from __future__ import annotations

import msgspec
import pytest

from tests.capture.test_manifest import MANIFEST
from tests.ingest.build import PlaneBuilder, space
from tests.ingest.traces import rows, tpu_trace, write
from xlahouse.capture.run.devices import device_coords
from xlahouse.ingest.run import IngestError, ingest_paths
from xlahouse.sql import Warehouse

# Two of the four chips of a v6e slice of 2 x 2, neighbours along y: by their numbers they would be along x.
COORDS = [[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]]


def ingest(tmp_path, coords, trace=None, slices=()):
    manifest = msgspec.structs.replace(
        MANIFEST,
        mesh_device_ids=[0, 1, 2, 3],
        mesh=[{"axis": "tp", "size": 4}],
        device_coords=coords,
        device_slices=list(slices),
    )
    raw = msgspec.json.encode(manifest)
    write(tmp_path / "in/metadata_1.json", raw)
    write(tmp_path / "in/trace_1.trace/plugins/profile/s/a.xplane.pb", trace or tpu_trace())
    ingest_paths([str(tmp_path / "in")], str(tmp_path / "wh"))


def places(tmp_path):
    return rows(tmp_path / "wh", "devices").sort("device_id")["coords"].to_list()


def test_the_manifest_tells_where_chips_stand(tmp_path):
    ingest(tmp_path, COORDS)
    assert places(tmp_path) == COORDS
    with Warehouse(str(tmp_path / "wh")) as warehouse:
        found = warehouse.query(
            "select topology, source_place, target_place, bytes from link_traffic where algorithm = 'ring'"
        ).rows
    # 2(n - 1)/n of 256 floats: 1024 bytes, from chip 0 to its neighbour along y
    assert found == [("2x2", "(0,0,0)", "(0,1,0)", 1024.0)]


def test_where_it_does_not_the_place_is_unknown(tmp_path):
    ingest(tmp_path, [])
    assert places(tmp_path) == [None] * 4


def test_the_manifest_tells_which_slice_a_device_is_in(tmp_path):
    """The all-reduce over devices 0 and 1, of slices 0 and 1, uses the data center's network: no ICI."""
    ingest(tmp_path, [], slices=[0, 1, 0, 1])
    found = rows(tmp_path / "wh", "devices").sort("device_id")["slice_index"]
    assert found.to_list() == [0, 1, 0, 1]
    with Warehouse(str(tmp_path / "wh")) as warehouse:
        sql = "select axis, over_dcn from collective_axis"
        assert warehouse.query(sql).rows == [("tp", True)]
        assert warehouse.query("select ici_ps from collective_bandwidth").rows == [(None,)]


def test_without_slices_in_the_manifest_none_is_known(tmp_path):
    ingest(tmp_path, [])
    assert set(rows(tmp_path / "wh", "devices")["slice_index"]) == {None}


def test_a_sparsecore_has_no_place_of_its_own(tmp_path):
    core = PlaneBuilder("/device:TPU:0 SparseCore 0", core_details=b"\x28\x00\x30\x00\x38\x01")
    core.event(core.line("Sparse Core Ops"), "%a = f32[] add()", 0, 5)
    ingest(tmp_path, COORDS, tpu_trace() + space(core.plane))
    devices = rows(tmp_path / "wh", "devices")
    assert devices.filter(core="sparsecore")["coords"].to_list() == [None]


@pytest.mark.parametrize("coords", [[[0]], [[0, 0, 0, 0]], [[-1, 0, 0]], [["x", 0]], 5])
def test_coordinates_that_are_none_are_refused(tmp_path, coords):
    with pytest.raises(IngestError, match=r"metadata_1\.json: .*device_coords"):
        ingest(tmp_path, coords)


@pytest.mark.parametrize(
    ("attributes", "coords"),
    [
        ([{"coords": [0, 0, 0], "core_on_chip": 0}, {"coords": (1, 0, 0)}], [[0, 0, 0], [1, 0, 0]]),
        ([{"name": "CPU:0"}, {"name": "CPU:1"}], []),
        ([{"coords": [0, 0, 0]}, {}], []),  # of a part of the devices they say nothing
        ([{"coords": [0, -1, 0]}], []),
    ],
)
def test_what_the_runtime_tells_of_devices(attributes, coords):
    assert device_coords(attributes) == coords
