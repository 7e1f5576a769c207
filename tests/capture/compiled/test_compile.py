"""The TPU's compiler here: programs of small cells against their plan, targets, limits, and the cache."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests.capture.compiled.transfers import transfers
from tests.chips import COORDS
from tests.later import Later, needs
from xlahouse.capture.compile import compiler as compiler_script
from xlahouse.capture.compile.cell import Compiling, compile_cell, compiled_before, find_compiled
from xlahouse.capture.compile.child import ChildLimits, Children
from xlahouse.capture.compile.program import Compiler
from xlahouse.capture.compile.target import target_of
from xlahouse.capture.compiled_facts import FACTS, CompiledRun
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.manifest import decode_manifest, metadata_path
from xlahouse.capture.plan import Experiment, Model

torch_xla = Later("torch_xla")
SMALL = {
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 16,
}
DECODE = ("decode",)
compiles = needs("torch", "torch_xla", "transformers", "jax", "libtpu")


def cell(**fields):
    """A small Qwen3: 4 sequences of 16 prompt tokens and 8 more."""
    return Experiment(
        **{
            "name": "small",
            "model": Model(name="small", preset="qwen3-32b", config=SMALL),
            "mesh": {"tp": 4},
            "batch_size": 4,
            "prompt_tokens": 16,
            "output_tokens": 8,
            "slice": "v6e-4",
            **fields,
        }
    )


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    """The compiler of this Python."""
    return Compiler.of(None, tmp_path_factory.mktemp("compiler"))


@pytest.fixture(scope="module")
def tp4(tmp_path_factory, compiler):
    """The folder of tp4's decode step, compiled for four v6e chips, and the traces folder.

    test_compiled_cells.py has both programs of many cells.
    """
    traces = tmp_path_factory.mktemp("traces")
    said = []
    compiling = Compiling(compiler, traces, Children(), DECODE)
    folder = compile_cell(cell(), target_of(cell()), compiling, said.append)
    assert said == ["tracing", "compiling the decode"]
    return folder, traces


@compiles
def test_collectives_are_the_plans(tp4):
    """Tensor parallelism: an all-reduce for the embedding and two a layer; one all-gather of logits."""
    found = transfers(tp4[0], "decode")["kind"]
    assert Counter(found) == {"all-reduce": 1 + 2 * 2, "all-gather": 1}


@compiles
def test_the_cache_is_donated(tp4):
    """f32[4,1,24,16] a layer, twice: 24 slots are padded to 128 lanes, in the buffers of arguments."""
    run = msgspec.json.decode((tp4[0] / FACTS).read_bytes(), type=CompiledRun)
    assert run.programs["decode"].alias_bytes == 2 * 2 * (4 * 16 * 128 * 4)
    assert sum(name.startswith("xlahouse.cache.") for name in run.programs["decode"].arguments) == 4
    assert "model.layers.1.mlp.down_proj.weight" in run.programs["decode"].arguments


@compiles
def test_the_manifest_names_real_chips(tp4):
    """A v6e-4 has its chips in a square; the run has no times."""
    path = metadata_path(tp4[0])
    manifest = decode_manifest(path.read_bytes(), str(path))
    assert manifest.device_coords == [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]
    assert (manifest.device_kind, manifest.device_count) == ("TPU v6 lite", 4)
    assert manifest.requests == []
    layer = 64 * (2 * 128 + 2 * 64) + 3 * 64 * 128 + 2 * 64 + 2 * 16  # attention, MLP, norms
    assert manifest.parameters == 2 * 512 * 64 + 2 * layer + 64  # embedding and head; last norm


@compiles
def test_the_same_cell_is_compiled_once(tp4, compiler):
    """Repeats share programs; another batch does not."""
    folder, traces = tp4
    said = []
    again = cell(name="small-r1", repeat=1, seed=1)
    compiling = Compiling(compiler, traces, Children(), DECODE)
    assert compile_cell(again, target_of(again), compiling, said.append) == folder
    assert said == ["compiled before"]
    assert find_compiled(traces / cell(batch_size=8).cell, "other") is None


@compiles
def test_a_dry_run_finds_what_was_compiled(tp4):
    """For the plan's chips and choices alone; a limit that a plan does not name changes nothing."""
    folder, traces = tp4
    run = msgspec.json.decode((folder / FACTS).read_bytes(), type=CompiledRun)
    assert compiled_before(cell(name="r1", repeat=1), traces) == run
    assert compiled_before(cell(slice="v5e-4"), traces) is None
    assert compiled_before(cell(dtype="bfloat16"), traces) is None
    assert compiled_before(cell(slice=""), traces) is None


@compiles
def test_a_program_without_memory_fails_alone(tmp_path, compiler):
    """The limit is named, and no folder stays."""
    small = Children(ChildLimits(memory_gib=0.05))
    with pytest.raises(CaptureError, match=r"0\.05 GiB of memory; raise --memory"):
        compile_cell(
            cell(), target_of(cell()), Compiling(compiler, tmp_path, small), lambda _: None
        )
    assert not list((tmp_path / cell().cell).glob("*compiled_*[0-9]"))


@pytest.mark.verify
@compiles
def test_the_compiler_names_all_chips_of_an_8x8_slice_by_their_ids():
    """In a process of its own, as it is asked: jax must not be here."""
    script = Path(compiler_script.__file__)
    ask = (
        "import compiler, json, os\n"
        "os.environ |= compiler.ENVIRONMENT\n"
        "print(json.dumps(compiler.places(compiler.devices_of('v6e:8x8', ''))))"
    )
    done = subprocess.run(
        (sys.executable, "-c", ask), cwd=script.parent, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert [place["id"] for place in found] == list(range(64))
    assert [place["coords"] for place in found] == COORDS


@pytest.mark.parametrize(
    ("slice_name", "mesh", "topology", "note"),
    [
        ("v6e-8", {"tp": 8}, "v6e:2x4", None),
        ("v6e-64", {"ep": 8, "tp": 8}, "v6e:8x8", None),
        ("v5litepod-16", {"tp": 16}, "v5e:4x4", None),
        ("v4-16", {"tp": 8}, "v4:2x2x2", None),
        ("v6e-1", {"tp": 1}, "v6e:2x2", "the first 1 of the 4 chips of v6e:2x2"),
        ("v6e-8", {"tp": 2}, "v6e:2x2", "the first 2 of the 4 chips of v6e:2x2"),
    ],
)
def test_topologies(slice_name, mesh, topology, note):
    """A slice has one topology; a mesh that no topology fits takes the first of the smallest."""
    target = target_of(cell(mesh=mesh, slice=""), slice_name)
    assert target.topology == topology
    assert (target.note is None) if note is None else (note in target.note)


def test_v4_has_one_device_a_chip():
    """Both cores of a v4 chip are one device, as at run time."""
    assert target_of(cell(slice="v4-8")).chip_config == "megacore_dense"


def test_no_slice_is_an_error():
    """It says how to name one."""
    with pytest.raises(CaptureError, match="--slice v6e-8"):
        target_of(cell(slice=""))
    with pytest.raises(CaptureError, match="4 devices, v6e-1 has 1 chips"):
        target_of(cell(slice=""), "v6e-1")


@pytest.mark.verify
@needs("torch", "torch_xla")
@pytest.mark.parametrize(("slice_name", "version"), [("v4-8", 4), ("v5e-4", 5), ("v6e-4", 6)])
def test_flags_are_those_of_torch_xla(monkeypatch, slice_name, version):
    """Independent: torch_xla's own function, on chips of this version."""
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "")
    monkeypatch.setattr(torch_xla.tpu, "version", lambda: version)
    torch_xla._setup_libtpu_flags()
    import os

    assert target_of(cell(slice=slice_name)).flags == os.environ["LIBTPU_INIT_ARGS"].strip()


def test_a_child_that_hangs_or_fails_is_one_line(tmp_path):
    """The reason, the limit to raise, and the log."""
    log = tmp_path / "child.log"
    sleeper = (sys.executable, "-c", "import time; time.sleep(60)")
    with pytest.raises(CaptureError, match=r"no result in 0\.2 s; raise --timeout; its log is"):
        Children(ChildLimits(seconds=0.2)).run(sleeper, b"", log, {})
    failing = (sys.executable, "-c", "raise SystemExit('exceeded hbm capacity')")
    with pytest.raises(CaptureError, match="ended with code 1: exceeded hbm capacity"):
        Children().run(failing, b"", log, {})
    with pytest.raises(CaptureError, match="no-python: No such file"):
        Children().run(("no-python",), b"", log, {})


def test_an_allocator_that_dies_of_its_limit_is_named(tmp_path):
    """Words of libtpu's allocator: it ends its process by a signal."""
    words = "F1201 03:57:25.550047 29358 low_level_alloc.cc:619] RAW: mmap error: 12"
    dying = (
        sys.executable,
        "-c",
        f"import os; os.write(2, b'{words}\\n'); os.kill(os.getpid(), 11)",
    )
    with pytest.raises(CaptureError, match="it needs more than 16 GiB of memory; raise --memory"):
        Children().run(dying, b"", tmp_path / "child.log", {})


def test_a_python_without_compiler_is_named(tmp_path):
    """It says what to install."""
    bare = tmp_path / "bare"
    bare.write_text("#!/bin/sh\necho '" + json.dumps({"jax": "0.7.1"}) + "'\n")
    bare.chmod(0o755)
    with pytest.raises(CaptureError, match="no jaxlib and no libtpu: pip install"):
        Compiler.of(str(bare), tmp_path)
