"""Small compiled runs, as `xlahouse compile` writes them, and the programs in them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.ingest.build import ModuleBuilder, shape, tuple_shape
from xlahouse.capture.compiled_facts import FACTS, HLO, ChipPlace, Compiled, CompiledRun
from xlahouse.capture.manifest import Manifest, MeshAxis, decode_manifest, write_manifest
from xlahouse.ingest.events.proto import message_class

REAL = Path(__file__).parents[1] / "cases" / "setup" / "repeat0.json"  # manifest of a real capture
N, X, PRED = shape("s32"), shape("f32", 64), shape("pred")
STEP = {"channel_id": 1, "use_global_device_ids": True}
HALVES = [[0, 1], [2, 3]]
FACTS_OF_ALL = {
    "argument_bytes": 1000,
    "output_bytes": 300,
    "alias_bytes": 200,
    "temp_bytes": 50,
    "generated_code_bytes": 7,
    "peak_bytes": 1100,
    "arguments": [],
    "platform_version": "made",
    "device_kind": "TPU v6 lite",
}


def number(value):
    """A LiteralProto of an s32."""
    return message_class("Literal")(s32s=[value]).SerializeToString()


def counted_loop(built, entry, begin, limit, step, direction="LT"):
    """A loop that counts from `begin` and adds `step` while it is less than `limit`; each round sums X
    over pairs of devices."""
    carried = tuple_shape(N, X)
    body = built.computation("body")
    state = built.add(body, "state", "parameter", carried)
    counter = built.add(body, "n", "get-tuple-element", N, state, tuple_index=0)
    value = built.add(body, "v", "get-tuple-element", X, state, tuple_index=1)
    one = built.add(body, "one", "constant", N, literal=number(step))
    added = built.add(body, "more", "add", N, counter, one)
    summed = built.add(body, "ar", "all-reduce", X, value, groups=HALVES, **STEP)
    built.add(body, "next", "tuple", carried, added, summed)
    condition = built.computation("condition")
    tested = built.add(condition, "s", "parameter", carried)
    so_far = built.add(condition, "c", "get-tuple-element", N, tested, tuple_index=0)
    most = built.add(condition, "limit", "constant", N, literal=number(limit))
    less = {"comparison_direction": direction.encode()}
    built.add(condition, "less", "compare", PRED, so_far, most, **less)
    made = built.computation(entry)
    x = built.add(made, "x", "parameter", X)
    zero = built.add(made, "zero", "constant", N, literal=number(begin))
    copied = built.add(made, "copied", "copy", N, zero)
    given = built.add(made, "given", "tuple", carried, copied, x)
    loop = built.add(made, "loop", "while", carried, given, calls=[body, condition])
    return made, loop


def prefill():
    """Four rounds of an all-reduce of 256 bytes over pairs, then a permute of 256 bytes from 0 to 1."""
    built = ModuleBuilder("IrToHlo.1", devices=[[0], [1], [2], [3]])
    entry, loop = counted_loop(built, "main", 1, 8, 2)  # 1, 3, 5, 7
    value = built.add(entry, "last", "get-tuple-element", X, loop, tuple_index=1)
    built.add(entry, "cp", "collective-permute", X, value, pairs=[(0, 1)], channel_id=2)
    return built.serialize()


def decode():
    """An all-reduce of 256 bytes over all, in a fusion."""
    built = ModuleBuilder("IrToHlo.1", devices=[[0], [1], [2], [3]])
    inner = built.computation("fused")
    parameter = built.add(inner, "p", "parameter", X)
    built.add(inner, "ar.1", "all-reduce", X, parameter, groups=[[0, 1, 2, 3]], **STEP)
    entry = built.computation("main")
    x = built.add(entry, "x", "parameter", X)
    scope = "model.layers.3.9/model.layers.3.mlp.4/aten__mm"
    built.add(entry, "fusion.1", "fusion", X, x, calls=[inner], op_name=scope)
    return built.serialize()


def manifest(**changes) -> Manifest:
    """The manifest of a compiled run on a v6e-4, with the choices of a real capture."""
    real = decode_manifest(REAL.read_bytes(), str(REAL))
    chosen = {
        "mesh": [MeshAxis("dp", 2), MeshAxis("tp", 2)],
        "mesh_device_ids": [0, 1, 2, 3],
        "parallelism": "dp2.tp2",
        "device_count": 4,
        "device_kind": "TPU v6 lite",
        "host_count": 1,
        "requests": [],
        "tokens": [],
        "name": "made",
    }
    return msgspec.structs.replace(real, **chosen | changes)


def write_compiled(root: Path, programs=None, stamp="1", **changes) -> Path:
    """The folder compiled_<stamp> with these programs, its compiled.json and its manifest."""
    folder = root / f"compiled_{stamp}"
    folder.mkdir(parents=True)
    programs = {"prefill": prefill(), "decode": decode()} if programs is None else programs
    for phase, raw in programs.items():
        (folder / f"{phase}{HLO}").write_bytes(raw)
    # The list is not in the order of ids, as libtpu's are not.
    places = [ChipPlace(n, [n % 2, n // 2, 0], 0, 0) for n in (0, 2, 1, 3)]
    said = CompiledRun(
        key="k",
        topology="v6e:2x2",
        chip_config="",
        flags="--a=b",
        compiler={"jax": "0.7.1", "libtpu": "0.0.21"},
        programs={phase: Compiled(**FACTS_OF_ALL, devices=places) for phase in programs},
    )
    write_manifest(manifest(**changes), root / f"metadata_{stamp}.json")
    (folder / FACTS).write_bytes(msgspec.json.encode(said))
    return folder
