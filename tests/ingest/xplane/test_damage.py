"""What is wrong with a trace costs what is wrong with it, and is said."""

from __future__ import annotations

import polars as pl
import pytest

from tests.ingest.build import PlaneBuilder, space, varint
from tests.ingest.traces import rows, tpu_trace, write
from tests.synth.protos import XSpace
from xlahouse.capture.errors import ManifestError
from xlahouse.ingest.formats import read_trace
from xlahouse.ingest.one_run import check_coverage
from xlahouse.ingest.run import IngestError, ingest_paths
from xlahouse.ingest.store.store import Store


def test_a_bad_file_fails_alone(tmp_path):
    write(tmp_path / "in/good.xplane.pb", tpu_trace())
    write(tmp_path / "in/empty.xplane.pb", b"")
    with pytest.raises(IngestError) as error:
        ingest_paths([str(tmp_path / "in"), str(tmp_path / "absent")], str(tmp_path / "wh"))
    assert [result.name for result in error.value.results] == ["good"]
    assert len(error.value.problems) == 2
    assert rows(tmp_path / "wh", "ops").height == 1


def test_a_bad_host_costs_its_file_and_is_an_issue(tmp_path):
    session = tmp_path / "log/plugins/profile/s"
    write(session / "a.xplane.pb", tpu_trace())
    write(session / "b.xplane.pb", b"")
    (result,) = ingest_paths([str(tmp_path / "log")], str(tmp_path / "wh"))
    assert (result.status, result.issues["error"]) == ("partial", 1)
    assert "unreadable_file" in rows(tmp_path / "wh", "issues")["code"].to_list()


def test_two_planes_of_one_file_and_number_cost_the_later_one(tmp_path):
    second = PlaneBuilder("/device:TPU:7", core_details=b"")  # empty details mean device 0
    second.event(second.line("XLA Ops"), "%a = f32[] add()", 0, 5)
    path = write(tmp_path / "a.xplane.pb", tpu_trace() + space(second.plane))
    ingest_paths([path], str(tmp_path / "wh"))
    assert "device_collision" in rows(tmp_path / "wh", "issues")["code"].to_list()
    assert rows(tmp_path / "wh", "coverage")["events_rejected"].sum() == 1
    assert rows(tmp_path / "wh", "ops").height == 1


def test_unknown_planes_and_lines_are_kept(tmp_path):
    plane = PlaneBuilder("/device:CUSTOM:Megascale Trace")
    plane.event(plane.line("dcn"), "send", 0, 5, size=3)
    tpu = PlaneBuilder("/device:TPU:0", core_details=b"")
    tpu.event(tpu.line("A Line Not Seen Yet"), "x", 0, 5)
    tpu.event(tpu.line("XLA TraceMe"), "my_kernel", 0, 5)
    new = PlaneBuilder("/device:CUSTOM:New")
    new.event(new.line("a"), "y", 0, 5)
    path = write(tmp_path / "a.xplane.pb", space(plane.plane, tpu.plane, new.plane))
    ingest_paths([path], str(tmp_path / "wh"))
    issues = rows(tmp_path / "wh", "issues")
    (message,) = issues.filter(pl.col("code") == "unknown_plane")["message"]
    assert message.startswith("plane /device:CUSTOM:New ")
    kept = (
        rows(tmp_path / "wh", "host_events").select("thread", "name", "args").sort("thread").rows()
    )
    assert kept == [
        ("/device:CUSTOM:Megascale Trace/dcn", "send", '{"size":3}'),
        ("/device:CUSTOM:New/a", "y", None),
        ("/device:TPU:0/A Line Not Seen Yet", "x", None),
        ("/device:TPU:0/XLA TraceMe", "my_kernel", None),
    ]


def test_negative_times_are_rejected_and_counted(tmp_path):
    tpu = PlaneBuilder("/device:TPU:0", core_details=b"")
    line = tpu.line("XLA Ops")
    tpu.event(line, "%a = f32[] add()", 5, 5)
    tpu.event(line, "%a = f32[] add()", 5, -1)
    path = write(tmp_path / "a.xplane.pb", space(tpu.plane))
    ingest_paths([path], str(tmp_path / "wh"))
    coverage = rows(tmp_path / "wh", "coverage")
    assert coverage.select(pl.col("events_read", "rows_written", "events_rejected").sum()).row(
        0
    ) == (2, 1, 1)


def test_a_bad_manifest_is_refused_by_field(tmp_path):
    folder = tmp_path / "m"
    write(folder / "trace_1.trace/plugins/profile/s/a.xplane.pb", tpu_trace())
    (folder / "metadata_1.json").write_text('{"name": 3}')
    with pytest.raises(IngestError, match=r"metadata_1\.json: .*name"):
        ingest_paths([str(tmp_path)], str(tmp_path / "wh"))
    assert issubclass(ManifestError, Exception)


def test_lost_events_fail_the_ingest():
    line = {
        "source": "s",
        "plane": "p",
        "line": "l",
        "events_read": 3,
        "rows_written": 1,
        "events_rejected": 1,
    }
    with pytest.raises(Exception, match="read 3 events but wrote 1 and rejected 1"):
        check_coverage(pl.DataFrame([line]))


@pytest.mark.parametrize("damage", ["table gone", "table cut", "row cut"])
def test_a_damaged_run_is_written_again(tmp_path, damage):
    path, root = write(tmp_path / "a.xplane.pb", tpu_trace()), str(tmp_path / "wh")
    (first,) = ingest_paths([path], root)
    (table,) = (tmp_path / "wh").glob("tables/ops/*/*.parquet")
    if damage == "table gone":
        table.unlink()
    elif damage == "table cut":
        table.write_bytes(b"PAR1")
    else:
        (tmp_path / f"wh/tables/runs/{first.run_id}.parquet").write_bytes(b"")
    (again,) = ingest_paths([path], root)
    (last,) = ingest_paths([path], root)
    assert [result.unchanged for result in (first, again, last)] == [False, False, True]
    assert len({result.run_id for result in (first, again, last)}) == 1


@pytest.mark.parametrize("details", [b"\xff\xff", 5, "text"])
def test_details_that_make_no_sense_cost_the_number_alone(tmp_path, details):
    odd = PlaneBuilder("/device:TPU:3", core_details=details)
    odd.event(odd.line("XLA Ops"), "%a = f32[] add()", 0, 5)
    path = write(tmp_path / "a.xplane.pb", tpu_trace() + space(odd.plane))
    (result,) = ingest_paths([path], str(tmp_path / "wh"))
    assert result.rows["ops"] == 2
    assert "device_number_assumed" in rows(tmp_path / "wh", "issues")["code"].to_list()
    assert rows(tmp_path / "wh", "ops")["device_id"].sort().to_list() == [0, 3]


@pytest.mark.parametrize("start", ["text", 2**63, -5])
def test_an_odd_profile_start_is_none(tmp_path, start):
    environment = PlaneBuilder("Task Environment", profile_start_time=start)
    path = write(tmp_path / "a.xplane.pb", tpu_trace() + space(environment.plane))
    (result,) = ingest_paths([path], str(tmp_path / "wh"))
    assert Store(str(tmp_path / "wh")).run_row(result.run_id)["epoch_ns"] is None


def test_times_that_no_number_holds_are_rejected(tmp_path):
    plane = PlaneBuilder("/device:TPU:0", core_details=b"")
    line = plane.line("XLA Ops")
    for start, duration in ((0, 5), (2**62, 5), (0, 2**62)):
        plane.event(line, "%a = f32[] add()", start, duration)
    far = plane.line("Steps")
    far.timestamp_ns = 2**62
    plane.event(far, "0", far.timestamp_ns * 1000, 5)
    path = write(tmp_path / "a.xplane.pb", space(plane.plane))
    ingest_paths([path], str(tmp_path / "wh"))
    coverage = rows(tmp_path / "wh", "coverage")
    assert (coverage["events_read"].sum(), coverage["events_rejected"].sum()) == (4, 3)


def test_hosts_that_state_no_start_are_compared_by_their_collective(tmp_path):
    session = tmp_path / "log/plugins/profile/s"
    for number in (0, 1):
        write(session / f"h{number}.xplane.pb", tpu_trace(number))
    ingest_paths([str(tmp_path / "log")], str(tmp_path / "wh"))
    assert rows(tmp_path / "wh", "clocks")["state"].to_list() == ["reference", "aligned"]
    assert rows(tmp_path / "wh", "collectives")["arrival_ps"].to_list() == [2_000, 2_000]
    assert set(rows(tmp_path / "wh", "issues")["severity"]) == {"info"}


def test_hosts_without_a_common_clock_are_not_compared(tmp_path):
    session = tmp_path / "log/plugins/profile/s"
    for number in (0, 1):
        plane = PlaneBuilder(f"/device:TPU:{number}", core_details=b"\x30" + bytes([number]))
        plane.event(plane.line("XLA Ops"), "fusion.1", 2_000, 1_000)
        write(session / f"h{number}.xplane.pb", space(plane.plane))
    ingest_paths([str(tmp_path / "log")], str(tmp_path / "wh"))
    assert rows(tmp_path / "wh", "clocks")["state"].to_list() == ["reference", "unconnected"]
    codes = rows(tmp_path / "wh", "issues")["code"].to_list()
    assert {"clocks_unknown", "clocks_unconnected"} <= set(codes)


def test_half_a_pair_still_keeps_its_device_busy(tmp_path):
    plane = PlaneBuilder("/device:TPU:0", core_details=b"")
    text = "%ar-done = f32[8]{0} all-reduce-done(f32[8]{0} %ar-start.1)"
    plane.event(plane.line("XLA Ops"), text, 50_000, 10_000, "ar-done")
    path = write(tmp_path / "a.xplane.pb", space(plane.plane))
    ingest_paths([path], str(tmp_path / "wh"))
    busy = rows(tmp_path / "wh", "busy_intervals").select("category", "start_ps", "duration_ps")
    assert busy.rows() == [("collective", 50_000, 10_000)]


def test_markers_without_numbers_are_a_finding(tmp_path):
    host = PlaneBuilder("/host:CPU")
    host.event(host.line("python"), "xlahouse.decode", 0, 90, _r=1, request="first")
    path = write(tmp_path / "a.xplane.pb", space(host.plane))
    ingest_paths([path], str(tmp_path / "wh"))
    assert "marker_incomplete" in rows(tmp_path / "wh", "issues")["code"].to_list()


@pytest.mark.parametrize(
    "wrong",
    [
        '"captured_at": "yesterday"',
        '"captured_at": "0001-01-01T00:00:00+14:00"',
        '"batch_size": 1e30',
    ],
)
def test_manifests_with_impossible_facts_are_refused(tmp_path, wrong):
    write(tmp_path / "m/trace_1.trace/plugins/profile/s/a.xplane.pb", tpu_trace())
    (tmp_path / "m/metadata_1.json").write_text("{" + wrong + "}")
    with pytest.raises(IngestError, match=r"metadata_1\.json"):
        ingest_paths([str(tmp_path)], str(tmp_path / "wh"))


@pytest.mark.parametrize(
    ("hostnames", "planes", "codes"),
    [
        (("host0",), [], []),
        ((), ["Task Environment"], []),
        ((), [], ["end_unseen"]),
    ],
)
def test_a_file_that_is_cut_between_planes_may_be(tmp_path, hostnames, planes, codes):
    """Such a file is a whole one to protobuf: only what stands last in every file tells."""
    tpu = PlaneBuilder("/device:TPU:0", core_details=b"")
    tpu.event(tpu.line("XLA Ops"), "%a = f32[] add()", 0, 5)
    others = [PlaneBuilder(name).plane for name in planes]
    raw = space(tpu.plane, *others, hostnames=hostnames)
    ingest_paths([write(tmp_path / "a.xplane.pb", raw)], str(tmp_path / "wh"))
    found = rows(tmp_path / "wh", "issues")["code"].to_list()
    assert [code for code in found if code == "end_unseen"] == codes


GROUPS = b"\x0b" * 200_000  # field 1 begins a group, in which field 1 begins a group, …


@pytest.mark.parametrize("where", ["plane", "line", "event", "name"])
def test_groups_in_groups_do_not_end_the_process(tmp_path, where):
    """The decoder follows each on the stack, which 200,000 of them overflow."""
    whole = XSpace.FromString(tpu_trace())
    good = whole.planes[1].SerializeToString()
    inner = whole.planes[1].lines[0]
    event = inner.events[0].SerializeToString() + (GROUPS if where == "event" else b"")
    if where == "name":  # a name may have such bytes
        whole.planes[1].event_metadata[0].value.name = "k" * 200_000
        read = read_trace(whole.SerializeToString(), "a.xplane.pb")
        assert "damaged_plane" not in {issue.code for issue in read.issues}
        return
    events = b"\x22" + varint(len(event)) + event
    line = events + (GROUPS if where == "line" else b"")
    plane = good + b"\x1a" + varint(len(line)) + line + (GROUPS if where == "plane" else b"")
    raw = b"\x0a" + varint(len(plane)) + plane + tpu_trace(1)
    ingest_paths([write(tmp_path / "a.xplane.pb", raw)], str(tmp_path / "wh"))
    assert "damaged_plane" in rows(tmp_path / "wh", "issues")["code"].to_list()
    assert rows(tmp_path / "wh", "ops")["device_id"].to_list() == [1]


@pytest.mark.parametrize("number", [-(1 << 63), -1, (1 << 63) - 1])
def test_a_stat_of_any_id_costs_no_plane(tmp_path, number):
    """References to stats are unsigned numbers, ids of stats signed ones."""
    space = XSpace.FromString(tpu_trace())
    entry = space.planes[1].stat_metadata.add(key=number)
    entry.value.id, entry.value.name = number, "odd"
    raw = space.SerializeToString()
    ingest_paths([write(tmp_path / "a.xplane.pb", raw)], str(tmp_path / "wh"))
    assert "damaged_plane" not in rows(tmp_path / "wh", "issues")["code"].to_list()
    assert rows(tmp_path / "wh", "ops").height == 1
