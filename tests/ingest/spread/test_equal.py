"""A run is the same, byte for byte, whoever computes its parts, and however many do."""

from __future__ import annotations

import gzip
from dataclasses import dataclass

import pytest

from tests.ingest.spread.written import strays, written
from tests.ingest.traces import rows, tpu_trace, write
from tests.layers import drawn, first_few
from tests.samples import sample
from tests.synth.describe import Run
from tests.synth.write import write_run
from xlahouse.ingest import large_runs
from xlahouse.ingest.run import each_in_workers, ingest_one, ingest_paths
from xlahouse.ingest.spread.parcels import computed, pack, result_of, unpack


@dataclass
class Packed:
    """Computes parts here, from bytes and to bytes as for another process; the last ones first."""

    parts: int = 0
    apart = True

    def each(self, do, shared, parts, in_turn=False):
        self.parts += len(parts)
        raw = pack(shared)
        found = {
            number: computed(do, pack(part.given), unpack(raw).value)
            for number, part in reversed(list(enumerate(parts)))
        }
        yield from (result_of(found[number]) for number in range(len(parts)))


def ingest(paths, root, spread=None):
    def each(runs, root, options, workers):
        yield from (ingest_one(run, root, options, spread) for run in runs)

    return ingest_paths(list(map(str, paths)), str(root), each=each)


def fleet(hosts, **changes):
    """A run of so many hosts with two devices each, on clocks that differ."""
    later = tuple(1_000_000 * host for host in range(hosts))
    given = {"layers": 1, "output_tokens": 3, "host_start_ns": later, **changes}
    return Run(mesh=(("ep", hosts), ("tp", 2)), hosts=hosts, **given)


RANDOM = drawn("hosts of a run that is spread")
HOSTS = sorted(RANDOM.sample(range(2, 9), 2))


@pytest.mark.parametrize("hosts", first_few(HOSTS, 1))
def test_a_run_of_any_number_of_hosts_is_the_same(tmp_path, hosts):
    write_run(fleet(hosts, requests=RANDOM.randint(1, 2)), tmp_path / "traces")
    spread = Packed()
    ingest([tmp_path / "traces"], tmp_path / "here")
    ingest([tmp_path / "traces"], tmp_path / "apart", spread)
    # Each file was hashed, read, looked at for its clock, and compared with its hash; then all are written.
    assert spread.parts == 4 * hosts + 1
    assert rows(tmp_path / "here", "clocks")["state"].to_list().count("aligned") == hosts - 1
    expected = written(tmp_path / "here")
    assert {"ops", "collectives", "host_events", "clocks", "device_steps"} <= expected.keys()
    assert written(tmp_path / "apart") == expected
    assert strays(tmp_path / "apart") == []


@pytest.mark.parametrize("workers", first_few([2, 3], 0))
def test_any_number_of_processes_writes_the_same(tmp_path, monkeypatch, workers):
    monkeypatch.setattr(large_runs, "LARGE_BYTES", 1)
    write_run(fleet(5), tmp_path / "traces")
    traces, said = [str(tmp_path / "traces")], []
    ingest(traces, tmp_path / "here")
    here, apart = str(tmp_path / "here"), str(tmp_path / "apart")
    ingest_paths(traces, apart, workers=workers, on_event=said.append, each=each_in_workers)
    assert written(apart) == written(here)
    (again,) = ingest_paths(traces, apart, workers=workers)
    assert again.unchanged
    assert len(said) == 1


KINDS = [
    "cpu/torch_xla_mlp_4dev.xplane.pb",
    "gpu/mi300_jax_gemm.xplane.pb",
    "tpu/v6e_4dev_jax_psum_offload.xplane.pb",
    "kineto/amd_minitoy.json.gz",
]


@pytest.mark.parametrize("name", first_few(KINDS, 2))
def test_every_kind_of_trace_passes_between_processes(tmp_path, name):
    ingest([sample(name)], tmp_path / "here")
    ingest([sample(name)], tmp_path / "apart", Packed())
    assert written(tmp_path / "apart") == written(tmp_path / "here")


def test_a_packed_file_passes_too_and_a_damaged_one_costs_itself(tmp_path):
    folder = tmp_path / "traces" / "plugins" / "profile" / "now"
    write(folder / "a.xplane.pb.gz", gzip.compress(tpu_trace(), mtime=0))
    write(folder / "b.xplane.pb", tpu_trace(1))
    write(folder / "c.xplane.pb", tpu_trace(2)[:-400])
    write(folder / "d.xplane.pb", b"no trace at all")
    (here,) = ingest([tmp_path / "traces"], tmp_path / "here")
    (apart,) = ingest([tmp_path / "traces"], tmp_path / "apart", Packed())
    assert (here.status, here.rows["ops"], here.issues) == (
        apart.status,
        apart.rows["ops"],
        apart.issues,
    )
    assert here.issues["error"] > 0
    assert written(tmp_path / "apart") == written(tmp_path / "here")
