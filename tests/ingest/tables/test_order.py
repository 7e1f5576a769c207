"""The order in which a file writes things means nothing: planes, lines, events, stats, names of files.

tests/test_properties.py checks the same on synthetic TPU runs; here are the other kinds of traces.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
from pathlib import Path

import polars as pl
import pytest

from tests.ingest.build import PlaneBuilder, space
from tests.ingest.chrome.test_kineto import kernel, nccl, of_rank
from tests.ingest.traces import write
from tests.ingest.xplane.test_cpu import WAIT, Host, launch
from tests.layers import first_few
from tests.samples import sample
from tests.synth.variants import shuffle
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.schema import TABLES

# Which run it is, stats in the order of the file, and what names files.
_FREE = ("run_id", "args", "source", "message")
SESSION = Path("plugins") / "profile" / "s"


def tables(folder, name="one"):
    """Table -> the rows that the traces under a folder give, as texts, in order, without what is free."""
    root = folder / "wh"
    ingest_paths([str(folder)], str(root), name=name)
    found = {}
    for table in (table.name for table in TABLES if table.name != "runs"):
        files = sorted(root.glob(f"tables/{table}/*/*.parquet"))
        frames = [pl.read_parquet(file, hive_partitioning=False) for file in files]
        rows = pl.concat(frames).drop(_FREE, strict=False).rows() if files else []
        found[table] = sorted(map(str, rows))
    return found


def assert_same(one, other):
    assert {name for name in one if one[name] != other[name]} == set()
    assert one["coverage"]


def cpu_capture(number):
    """Two executions on two devices of a process."""
    host = Host()
    for again in (0, 300):
        at = 100 + again
        numbers = tuple(range(1 + again, 6 + again))
        launch(host, at, numbers, [("pool-c", at + 50), ("pool-a", at + 60)])
        for device, (thread, when) in enumerate((("pool-c", at + 51), ("pool-a", at + 61))):
            host.op(thread, "dot", when, 20, 10 + again + device, end=when + 22)
            host.event(thread, WAIT, when + 23, 10)
        host.event("main", "xlahouse.decode", at - 5, 200, request=0, step_num=again)
    environment = PlaneBuilder("Task Environment", profile_start_time=1_700_000_000 * 10**9)
    return space(host.built.plane, environment.plane, hostnames=(f"host{number}",))


def gpu_trace(number):
    """Two executions of two kernels each on two streams of one name."""
    device = PlaneBuilder("/device:GPU:0")
    streams = [device.line("Stream"), device.line("Stream")]
    host = PlaneBuilder("/host:CPU")
    threads = [host.line("executor"), host.line("calls")]
    for again in (0, 1000):
        host.event(threads[0], "GpuExecutable::ExecuteThunks", 10 + again, 50)
        for k, stream in enumerate(streams):
            called = {"correlation_id": 7 + again + k, "hlo_module": "m"}
            host.event(threads[1], "cuLaunchKernel", 20 + again + k, 5, **called)
            ran = {"hlo_op": f"op{k}", "program_id": 5} | called
            device.event(stream, f"k{k}", 100 + again + 30 * k, 60, **ran)
    return space(device.plane, host.plane, hostnames=(f"host{number}",))


@pytest.mark.parametrize("seed", first_few([1, 2], 1))
@pytest.mark.parametrize("trace", [cpu_capture, gpu_trace])
def test_order_within_xplanes_and_names_of_files_mean_nothing(tmp_path, trace, seed):
    for folder in ("plain", "shuffled"):
        for number in range(2):
            write(tmp_path / folder / SESSION / f"f{number}.xplane.pb", trace(number))
    plain = tables(tmp_path / "plain")
    shuffle(tmp_path / "shuffled" / SESSION, random.Random(seed))
    assert_same(tables(tmp_path / "shuffled"), plain)
    assert len(plain["ops"]) == 8
    assert len(plain["launches"]) == (8 if trace is cpu_capture else 4)


@pytest.mark.parametrize(
    "name",
    first_few(["cpu/torch_xla_mlp_4dev.xplane.pb", "gpu/mi300_jax_conv.xplane.pb"], 1),
)
def test_order_within_real_xplanes_means_nothing(tmp_path, name):
    for folder in ("plain", "shuffled"):
        (tmp_path / folder).mkdir()
        shutil.copy(sample(name), tmp_path / folder / "h.xplane.pb")
    shuffle(tmp_path / "shuffled", random.Random(5))
    assert_same(tables(tmp_path / "shuffled"), tables(tmp_path / "plain"))


def test_order_of_kineto_events_means_nothing(tmp_path):
    events = [
        *(nccl(10 + 20 * k, 8, elements=(64 * k + 64,) * 2) for k in range(4)),
        *(kernel("gemm", 5 + 20 * k, 9, correlation=k) for k in range(4)),
        nccl(12, 3, "all_to_allv", (10, 30)),
    ]
    for folder in ("plain", "shuffled"):
        order = list(events)
        if folder == "shuffled":
            random.Random(3).shuffle(order)
        for rank in (0, 1):
            write(tmp_path / folder / f"{rank}.json", of_rank(rank, *order))
    plain = tables(tmp_path / "plain")
    assert_same(tables(tmp_path / "shuffled"), plain)
    assert len(plain["collectives"]) == 10


def test_order_of_real_chrome_events_means_nothing(tmp_path):
    whole = json.loads(gzip.decompress(sample("kineto/sampled_rank1.json.gz").read_bytes()))
    for folder in ("plain", "shuffled"):
        if folder == "shuffled":
            random.Random(3).shuffle(whole["traceEvents"])
        raw = gzip.compress(json.dumps(whole).encode(), 1)
        write(tmp_path / folder / "h.trace.json.gz", raw)
    assert_same(tables(tmp_path / "shuffled"), tables(tmp_path / "plain"))
