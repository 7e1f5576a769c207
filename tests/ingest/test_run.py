"""The verb on whole files: real samples, settings, refusals, repeats."""

from __future__ import annotations

import msgspec
import polars as pl
import pytest

from tests.capture.test_manifest import MANIFEST
from tests.ingest.build import PlaneBuilder, space
from tests.ingest.traces import rows, tpu_trace, write
from tests.samples import SAMPLES
from xlahouse.capture.manifest import MeshAxis, write_manifest
from xlahouse.ingest.run import IngestError, ingest_paths
from xlahouse.ingest.store import packs, run_index
from xlahouse.ingest.store.settings import read_settings
from xlahouse.ingest.store.store import Store

needs_samples = pytest.mark.skipif(
    not SAMPLES.is_dir(), reason=f"no sample traces at {SAMPLES}; set XLAHOUSE_TRACES"
)


@needs_samples
def test_v6e_sample(tmp_path):
    """METRICS, Bandwidth: 3 all-reduces on each of 4 traced devices, in groups of 2 with the other host."""
    (result,) = ingest_paths(
        [str(SAMPLES / "tpu/v6e_4dev_jax_psum_offload.xplane.pb")], str(tmp_path)
    )
    assert result.status == "partial"  # 8 devices take part, 4 are traced
    found = rows(tmp_path, "collectives")
    assert found.height == 12
    assert found["kind"].unique().to_list() == ["all-reduce"]
    # f32[5,1024,1024,256]: 5 x 1024 x 1024 x 256 x 4 bytes
    assert found["payload_bytes"].unique().to_list() == [5_368_709_120]
    assert found["group_size"].unique().to_list() == [2]
    assert found["instance"].n_unique() == 12
    first = found.filter(pl.col("device_id") == 4).sort("start_ps").row(0, named=True)
    assert first["duration_ps"] == 121_687_640_000
    # the barrier directly before it starts at 7495495531578 (read off the trace)
    assert first["arrival_ps"] == 7_495_495_531_578
    devices = rows(tmp_path, "devices").sort("device_id")
    assert devices.filter("traced")["device_id"].to_list() == [4, 5, 6, 7]
    assert devices["device_id"].to_list() == list(range(8))
    groups = (
        rows(tmp_path, "replica_groups")
        .group_by("group_index")
        .agg("device_id")
        .sort("group_index")
    )
    assert groups["device_id"].to_list() == [[0, 4], [1, 5], [2, 6], [3, 7]]
    # 105 and 3 x 103 module executions; each line's events are all accounted for
    assert rows(tmp_path, "launches").height == 414
    coverage = rows(tmp_path, "coverage")
    assert coverage["events_read"].sum() == 2317 + 3 * 1712 + 19270
    assert coverage["events_rejected"].sum() == 0
    assert rows(tmp_path, "ops").filter(category="host_transfer").height == 4 * 1200 + 600
    found = dict(rows(tmp_path, "issues").select("code", "count").rows())
    assert found == {"devices_missing": 4, "scope_unknown": 1}


@needs_samples
def test_mangled_sample_is_refused_and_nothing_is_written(tmp_path):
    root = tmp_path / "wh"
    with pytest.raises(IngestError, match=r"text codec destroyed it") as error:
        ingest_paths([str(SAMPLES / "tpu/v6e_4dev_utf8_mangled.xplane.pb")], str(root))
    assert len(error.value.problems) == 1
    assert not root.exists()


@needs_samples
def test_cpu_sample(tmp_path):
    (result,) = ingest_paths([str(SAMPLES / "cpu/torch_xla_mlp_4dev.xplane.pb")], str(tmp_path))
    assert result.status == "complete"
    launches = rows(tmp_path, "launches")
    # 5 executions (5 `decode` scopes in the script) on each of 4 devices
    devices = launches.group_by("launch_instance").agg(pl.col("device_id").n_unique())
    assert devices.sort("launch_instance").rows() == [(number, 4) for number in range(5)]
    found = rows(tmp_path, "collectives")
    assert found["payload_bytes"].unique().to_list() == [64 * 1024 * 4]  # f32[64,1024]
    assert found["group_size"].unique().to_list() == [4]
    assert rows(tmp_path, "devices")["inferred"].to_list() == [True] * 4


def test_the_same_input_twice_is_one_run(tmp_path):
    path = write(tmp_path / "a.xplane.pb", tpu_trace())
    root = str(tmp_path / "wh")
    said = []
    (first,) = ingest_paths([path], root, on_event=said.append)
    copy = write(tmp_path / "elsewhere/b.xplane.pb", tpu_trace())
    (again,) = ingest_paths([copy], root, name="a", on_event=said.append)
    assert (first.unchanged, again.unchanged) == (False, True)
    assert again.run_id == first.run_id
    assert said[1].endswith("already ingested, unchanged")
    assert rows(root, "collectives").height == 1


def test_many_runs_that_are_not_packed_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(packs, "LEAST_NEW", 1)
    monkeypatch.setattr(run_index, "LEAST_NEW", 1)
    path = write(tmp_path / "a.xplane.pb", tpu_trace())
    said = []
    ingest_paths([path], str(tmp_path / "w h"), on_event=said.append)
    assert said[1].startswith("1 small run not packed: ")
    assert f"`xlahouse compact -w '{tmp_path}/w h'`" in said[1]


def test_hosts_of_a_session_are_one_run_on_one_clock(tmp_path):
    session = tmp_path / "log/plugins/profile/s"
    for number, start in ((0, 5_000_000), (1, 5_000_002)):  # ns: the second starts 2 us later
        environment = PlaneBuilder("Task Environment", profile_start_time=start)
        write(
            session / f"host{number}.xplane.pb",
            tpu_trace(number) + space(environment.plane, hostnames=()),
        )
    (result,) = ingest_paths([str(tmp_path / "log")], str(tmp_path / "wh"))
    assert result.status == "complete"
    found = rows(tmp_path / "wh", "collectives").sort("device_id")
    # All members of an all-reduce end together, so the 2 us are those of the clocks: they are subtracted,
    # and no time moves before zero.
    assert found.select("device_id", "start_ps").rows() == [(0, 4_000), (1, 4_000)]


def test_devices_that_only_the_manifest_names_are_rows(tmp_path):
    folder = tmp_path / "m"
    write(folder / "trace_1.trace/plugins/profile/s/a.xplane.pb", tpu_trace())
    manifest = msgspec.structs.replace(
        MANIFEST,
        name="n",
        mesh=[MeshAxis("dp", 2), MeshAxis("tp", 2)],
        mesh_device_ids=[0, 1, 2, 3],
        device_count=4,
        host_count=2,
    )
    write_manifest(manifest, folder / "metadata_1.json")
    (result,) = ingest_paths([str(tmp_path)], str(tmp_path / "wh"))
    devices = rows(tmp_path / "wh", "devices").sort("device_id")
    # the program names 0 and 1 and the trace holds 0; 2 and 3 stand in the manifest alone
    assert devices.select("device_id", "traced").rows() == [
        (0, True),
        (1, False),
        (2, False),
        (3, False),
    ]
    assert result.name == "n"
    codes = rows(tmp_path / "wh", "issues")
    assert codes.filter(code="hosts_missing")["count"].to_list() == [1]  # 2 in the manifest, 1 here


def test_processes_that_share_device_numbers_are_worlds(tmp_path):
    """Two processes of a host, each with devices 0 (traced) and 1 of its own program."""
    session = tmp_path / "log/plugins/profile/s"
    for name in ("host0.0", "host0.1"):
        environment = PlaneBuilder("Task Environment", profile_start_time=5_000_000, pid=name)
        write(session / f"{name}.xplane.pb", tpu_trace() + space(environment.plane, hostnames=()))
    (result,) = ingest_paths([str(tmp_path / "log")], str(tmp_path / "wh"))
    devices = rows(tmp_path / "wh", "devices").sort("device_id")
    columns = ["device_id", "world", "logical_id", "traced", "process"]
    assert devices.select(columns).rows() == [
        (0, 0, 0, True, 0),
        (1, 0, 1, False, None),
        (2, 1, 0, True, 1),
        (3, 1, 1, False, None),
    ]
    groups = rows(tmp_path / "wh", "replica_groups").sort("world", "position")
    assert groups.select("world", "logical_id", "device_id").rows() == [
        (0, 0, 0),
        (0, 1, 1),
        (1, 0, 2),
        (1, 1, 3),
    ]
    # at the same time and of the same program, yet two transfers, two launches, two steps
    found = rows(tmp_path / "wh", "collectives").sort("device_id")
    assert found.select("device_id", "instance", "step").rows() == [(0, 0, 0), (2, 1, 1)]
    assert rows(tmp_path / "wh", "launches")["launch_instance"].sort().to_list() == [0, 1]
    phases = rows(tmp_path / "wh", "phases")
    assert phases["step"].sort().to_list() == [0, 1]
    assert result.status == "partial"


def test_enqueues_link_within_their_process_by_context_and_id(tmp_path):
    session = tmp_path / "log/plugins/profile/s"
    for number, at in ((0, 100), (1, 300)):  # both processes use context 12, id 5
        host = PlaneBuilder("/host:CPU")
        line = host.line("python")
        host.event(line, "DoEnqueueProgram", at, 9, _pt=12, _p=5)
        host.event(line, "something else", 1, 9, _pt=7, _p=5)
        plane = PlaneBuilder(f"/device:TPU:{number}", core_details=b"\x30" + bytes([number]))
        plane.event(plane.line("XLA Modules"), "jit_f(77)", 1000, 50, _ct=12, _c=5)
        write(session / f"h{number}.xplane.pb", space(host.plane, plane.plane))
    ingest_paths([str(tmp_path / "log")], str(tmp_path / "wh"))
    found = rows(tmp_path / "wh", "launches").sort("device_id")
    assert found.select("device_id", "enqueue_ps").rows() == [(0, 100), (1, 300)]


BIG = (1 << 64) - 5  # whose 64 bits are also those of -5


@pytest.mark.parametrize(("told", "wanted"), [(BIG, BIG), (BIG, -5), (-5, BIG), (-5, -5)])
def test_enqueues_link_by_ids_of_64_bits_however_they_are_written(tmp_path, told, wanted):
    host = PlaneBuilder("/host:CPU")
    host.event(host.line("python"), "DoEnqueueProgram", 100, 9, _pt=12, _p=told)
    plane = PlaneBuilder("/device:TPU:0", core_details=b"\x30\x00")
    plane.event(plane.line("XLA Modules"), "jit_f(77)", 1000, 50, _ct=12, _c=wanted)
    path = write(tmp_path / "a.xplane.pb", space(host.plane, plane.plane))
    ingest_paths([path], str(tmp_path / "wh"))
    assert rows(tmp_path / "wh", "launches")["enqueue_ps"].to_list() == [100]


def test_warmups_never_share_a_step_with_a_measured_request(tmp_path):
    host = PlaneBuilder("/host:CPU")
    line = host.line("python")
    for start, name in ((0, "warmup"), (100, "prefill")):
        host.event(line, f"xlahouse.{name}", start, 90, _r=1, request=0, step_num=0)
    path = write(tmp_path / "a.xplane.pb", space(host.plane))
    ingest_paths([path], str(tmp_path / "wh"))
    found = rows(tmp_path / "wh", "phases").sort("start_ps")
    assert found.select("phase", "request", "step").rows() == [("warmup", -1, 0), ("prefill", 0, 0)]


def test_without_hlo_nothing_is_guessed(tmp_path):
    """The op's name is its instruction's text, which has the operand, f32[256], and no groups."""
    path = write(tmp_path / "a.xplane.pb", tpu_trace(hlo=False))
    ingest_paths([path], str(tmp_path / "wh"))
    (row,) = rows(tmp_path / "wh", "collectives").to_dicts()
    assert (row["kind"], row["payload_bytes"], row["group_index"], row["instance"]) == (
        "all-reduce",
        1024,
        None,
        None,
    )
    codes = set(rows(tmp_path / "wh", "issues")["code"])
    assert codes >= {"no_hlo", "collective_without_group"}


def test_no_device_events_is_a_run(tmp_path):
    host = PlaneBuilder("/host:CPU")
    host.event(host.line("python"), "work", 0, 5)
    path = write(tmp_path / "a.xplane.pb", space(host.plane))
    (result,) = ingest_paths([path], str(tmp_path / "wh"))
    assert result.status == "no_device_events"
    assert rows(tmp_path / "wh", "host_events").height == 1


def test_mesh_becomes_a_setting_and_must_fit(tmp_path):
    path = write(tmp_path / "a.xplane.pb", tpu_trace())
    root = str(tmp_path / "wh")
    (result,) = ingest_paths([path], root, mesh=[MeshAxis("tp", 2)])
    assert read_settings(root, result.run_id).mesh == [MeshAxis("tp", 2)]
    with pytest.raises(IngestError, match="mesh tp=3 has 3 places, but the run names 2 devices"):
        ingest_paths([path], root, mesh=[MeshAxis("tp", 3)])
    assert read_settings(root, result.run_id).mesh == [MeshAxis("tp", 2)]


def test_strict_turns_findings_into_an_error_and_keeps_the_run(tmp_path):
    path = write(tmp_path / "a.xplane.pb", tpu_trace(hlo=False))
    with pytest.raises(IngestError, match="and --strict was given"):
        ingest_paths([path], str(tmp_path / "wh"), strict=True)
    assert Store(str(tmp_path / "wh")).run_row(rows(tmp_path / "wh", "ops")["run_id"][0])


def test_runs_in_parallel_processes(tmp_path):
    paths = [write(tmp_path / f"{number}.xplane.pb", tpu_trace(number)) for number in (0, 1)]
    progress = []
    results = ingest_paths(
        paths,
        str(tmp_path / "wh"),
        workers=2,
        on_progress=lambda done, total: progress.append((done, total)),
    )
    assert [result.name for result in results] == ["0", "1"]
    assert progress == [(0, 2), (1, 2), (2, 2)]


def test_a_name_is_kept_until_another_is_given(tmp_path):
    path, root = write(tmp_path / "a.xplane.pb", tpu_trace()), str(tmp_path / "wh")
    results = [ingest_paths([path], root, name=name)[0] for name in ("base", None, "other", None)]
    assert [result.name for result in results] == ["base", "base", "other", "other"]
    assert [result.unchanged for result in results] == [False, True, True, True]
    assert Store(root).run_row(results[0].run_id)["name"] == "other"


def test_files_of_one_named_call_are_one_run(tmp_path):
    paths = [write(tmp_path / f"h{number}.xplane.pb", tpu_trace(number)) for number in (0, 1)]
    (result,) = ingest_paths(paths, str(tmp_path / "wh"), name="both")
    assert (result.name, result.status) == ("both", "complete")
    assert rows(tmp_path / "wh", "collectives")["device_id"].sort().to_list() == [0, 1]


def test_sessions_seconds_apart_are_one_run_of_one_capture_or_name(tmp_path):
    for number, session in ((0, "2025_01_01_00_00_00"), (1, "2025_01_01_00_00_04")):
        path = tmp_path / f"m/trace_1.trace/plugins/profile/{session}/h{number}.xplane.pb"
        write(path, tpu_trace(number))
        write(tmp_path / f"log/plugins/profile/{session}/h{number}.xplane.pb", tpu_trace(number))
    (captured,) = ingest_paths([str(tmp_path / "m")], str(tmp_path / "wh"))
    (named,) = ingest_paths([str(tmp_path / "log")], str(tmp_path / "wh2"), name="both")
    assert captured.run_id == named.run_id  # the same files
    assert captured.status == "complete"
    apart = ingest_paths([str(tmp_path / "log")], str(tmp_path / "wh3"))
    assert len(apart) == 2  # nothing says that they belong together


def test_captures_are_never_thrown_together(tmp_path):
    for number in (1, 2):
        trace = tmp_path / f"m/trace_{number}.trace/plugins/profile/s/a.xplane.pb"
        write(trace, tpu_trace())
        (tmp_path / f"m/metadata_{number}.json").write_text("{}")
    with pytest.raises(IngestError, match="each capture is a run of its own"):
        ingest_paths([str(tmp_path / "m")], str(tmp_path / "wh"), name="both")


def test_lines_in_unix_time_count_from_the_profiles_start(tmp_path):
    unix = 1_700_000_000_000_000_000  # ns
    plane = PlaneBuilder("/device:TPU:0", core_details=b"")
    line = plane.line("XLA Ops", timestamp_ns=unix + 7)
    plane.event(line, "%a = f32[] add()", (unix + 7) * 1000 + 500, 5)
    environment = PlaneBuilder("Task Environment", profile_start_time=unix)
    path = write(tmp_path / "a.xplane.pb", space(environment.plane, plane.plane))
    ingest_paths([path], str(tmp_path / "wh"))
    assert rows(tmp_path / "wh", "ops")["start_ps"].to_list() == [7_500]
    alone = write(tmp_path / "b.xplane.pb", space(plane.plane))
    (result,) = ingest_paths([alone], str(tmp_path / "wh2"))
    assert rows(tmp_path / "wh2", "ops")["start_ps"].to_list() == [500]
    assert Store(str(tmp_path / "wh2")).run_row(result.run_id)["epoch_ns"] == unix + 7


def test_without_hlo_a_done_names_its_start_in_its_text(tmp_path):
    plane = PlaneBuilder("/device:TPU:0", core_details=b"")
    line = plane.line("XLA Ops")
    plane.event(line, "%ar-start.1 = f32[8]{0} all-reduce-start(f32[8]{0} %x)", 0, 10, "ar-start.1")
    text = "%ar-done = f32[8]{0} all-reduce-done(f32[8]{0} %ar-start.1)"
    plane.event(line, text, 50_000, 10_000, "ar-done")
    path = write(tmp_path / "a.xplane.pb", space(plane.plane))
    ingest_paths([path], str(tmp_path / "wh"))
    (row,) = rows(tmp_path / "wh", "collectives").to_dicts()
    assert (row["kind"], row["duration_ps"], row["wait_ps"]) == ("all-reduce", 60_000, 10_000)
