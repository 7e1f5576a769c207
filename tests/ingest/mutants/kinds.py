"""What is mutated, and how: each kind has sources, of which one file is changed by a random number."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from tests.ingest.compiled_build import write_compiled
from tests.ingest.damage import damage
from tests.ingest.mutants import hostile, packed, texts, wire_tree
from tests.ingest.mutants.json_tree import mutated_json
from tests.ingest.test_card import CARD
from tests.ingest.traces import all_reduce_module, tpu_trace
from tests.sweep.inputs import CASES, CHROME, INPUTS, XPLANE

NOTHING: Mapping[str, str] = MappingProxyType({})
OWN = 60  # the device of the small trace, which no good one is of
SMALL = 10_000  # bytes of a trace that is mutated often
_PROGRAM = Path(__file__).parent / "program.hlo.txt"
_EVENT = (1, 3, 4)  # of a line of a plane, by the numbers of XSpace's fields
TRACE = f"in/m/host0{XPLANE}"


@dataclass(frozen=True, eq=False)  # itself, to be remembered by
class Source:
    """Files that are a run, one of which is to be changed."""

    name: str
    files: Mapping[str, bytes]  # path -> contents
    target: str  # the path of the file that is changed
    raw: bytes  # of the target, unpacked if it is packed
    trace: str  # the path of the file with events; "": none
    options: Mapping[str, str] = field(default_factory=dict)  # of the ingest, its values as paths

    def changed(self, raw: bytes) -> dict[str, bytes]:
        """The files with other contents of the target."""
        return {**self.files, self.target: raw}


Change = Callable[[Source, random.Random], bytes]


@dataclass(frozen=True)
class Kind:
    """Sources and what changes them."""

    weight: int  # of ten thousand mutants
    sources: Callable[[], list[Source]]
    change: Change


@cache
def xplanes() -> list[Source]:
    """Xplanes of every reader; small ones more often than large ones."""
    made = [(each.name, each.make()) for each in INPUTS if each.ending == XPLANE]
    made += [("small", tpu_trace(OWN)), ("iota", _case("faults/iota_200_x_2_20.xplane.pb"))]
    made += [
        (
            "clocks",
            _case(f"clocks/two_hosts_30us_known/plugins/profile/2026_01_01_00_00_00/hA{XPLANE}"),
        )
    ]
    made += [
        (
            "serving",
            _case(
                f"serving/overlapping_requests_linked/plugins/profile/2026_01_01_00_00_00/h{XPLANE}"
            ),
        )
    ]
    often = [pair for pair in made if len(pair[1]) < SMALL]
    return [Source(name, {TRACE: raw}, TRACE, raw, TRACE) for name, raw in made + 3 * often]


@cache
def chromes() -> list[Source]:
    """Chrome traces of every reader."""
    path = "in/m/host0.trace.json"
    made = [(each.name, each.make()) for each in INPUTS if each.ending == CHROME]
    made += [
        (name, gzip.decompress(_case(f"faults/{name}.trace.json.gz")))
        for name in ("evil_names", "huge_payload")
    ]
    often = [pair for pair in made if len(pair[1]) < SMALL]
    return [Source(name, {path: raw}, path, raw, path) for name, raw in made + 3 * often]


@cache
def compressed() -> list[Source]:
    """Traces in gzip and Zstandard."""
    found = []
    for trace in [*xplanes()[-8:], *chromes()[-8:]]:
        for ending, pack in ((".gz", gzip.compress), (".zst", packed.zstd)):
            path = trace.target + ending
            found.append(Source(trace.name, {path: pack(trace.raw)}, path, trace.raw, path))
    return found


@cache
def archives() -> list[Source]:
    """Archives of one trace."""
    return [
        Source(ending, {f"in/m/a{ending}": b""}, f"in/m/a{ending}", tpu_trace(OWN), "")
        for ending in (".zip", ".tar", ".tar.gz", ".tgz")
    ]


@cache
def text_dumps() -> list[Source]:
    """Programs as text beside a trace."""
    found = []
    text = (
        CASES / "transfers/megascale_dcn_hlo/module_0001.jit_f.cl_1.after_optimizations.txt"
    ).read_bytes()
    for name, raw in (("all-reduce", _PROGRAM.read_bytes()), ("megascale", text)):
        path = "in/m/jit_f(77).txt"
        files = {TRACE: tpu_trace(OWN, hlo=False), path: raw}
        found.append(Source(name, files, path, raw, TRACE))
    trace = f"in/m/host0{CHROME}"
    for each in INPUTS:
        if each.trace is not None:
            files = {trace: each.trace(), path: each.make()}
            found.append(Source(each.name, files, path, files[path], trace))
    return found


@cache
def proto_dumps() -> list[Source]:
    """Programs as protos beside a trace."""
    real = gzip.decompress(_case("compiled/scan_tp4_cpu.jax0.10.2.hlo.pb.gz"))
    path = "in/m/module_0077.jit_f.cl_1.hlo_proto.pb"
    return [
        Source(name, {TRACE: tpu_trace(OWN, hlo=False), path: raw}, path, raw, TRACE)
        for name, raw in (("all-reduce", all_reduce_module().serialize()), ("scan", real))
    ]


@cache
def cards() -> list[Source]:
    """A workload card beside a trace, and one that is given."""
    raw = CARD.encode()
    beside = Source(
        "beside", {TRACE: tpu_trace(OWN), "in/m/card.yaml": raw}, "in/m/card.yaml", raw, TRACE
    )
    given = {TRACE: tpu_trace(OWN), "given.yaml": raw}
    return [beside, Source("given", given, "given.yaml", raw, TRACE, {"card": "given.yaml"})]


@cache
def manifests() -> list[Source]:
    """The manifest beside a capture."""
    folder = CASES / "pipeline/gpipe_p4_m8/b"
    files = {
        f"in/m/{p.relative_to(folder)}": p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }
    (target,) = (path for path in files if path.endswith(".json"))
    (trace,) = (path for path in files if path.endswith(XPLANE))
    return [Source("gpipe", files, target, files[target], trace)]


@cache
def compiled() -> list[Source]:
    """Each file of a compiled run."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_compiled(folder)
        files = {
            f"in/m/{p.relative_to(folder)}": p.read_bytes()
            for p in sorted(folder.rglob("*"))
            if p.is_file()
        }
    return [Source(path, files, path, raw, "") for path, raw in files.items()]


def _case(name: str) -> bytes:
    return (CASES / name).read_bytes()


def _bytes(source: Source, draw: random.Random) -> bytes:
    return damage(source.raw, draw)


def _fields(source: Source, draw: random.Random) -> bytes:
    return wire_tree.mutated(source.raw, draw)


def _json(source: Source, draw: random.Random) -> bytes:
    return mutated_json(source.raw, draw)


def _compressed(source: Source, draw: random.Random) -> bytes:
    ending = source.target[source.target.rindex(".") :]
    return packed.mutated_packed(source.raw, ending, draw)


def _archive(source: Source, draw: random.Random) -> bytes:
    return packed.mutated_archive(f"p/host0{XPLANE}", source.raw, source.name, draw)


def _lines(source: Source, draw: random.Random) -> bytes:
    return texts.mutated_lines(source.raw.decode(), draw)


def _yaml(source: Source, draw: random.Random) -> bytes:
    return texts.mutated_yaml(source.raw.decode(), draw)


def _document(source: Source, draw: random.Random) -> bytes:
    """JSON or protobuf, by its bytes or by its structure."""
    if draw.random() < 0.3:
        return damage(source.raw, draw)
    return _json(source, draw) if source.target.endswith(".json") else _fields(source, draw)


def _named(source: Source, draw: random.Random) -> bytes:
    """Every text of the same length as a drawn one of the file, replaced by a hostile one of that length."""
    words = sorted(
        {
            word
            for word in source.raw.split(b'"' if source.raw[:1] == b"{" else b"\x12")
            if 0 < len(word) < 60
        }
    )
    old = draw.choice(words)
    new = hostile.name(draw).encode("utf-8", "surrogatepass")[: len(old)].ljust(len(old), b"\x1b")
    return source.raw.replace(old, new)


KINDS = {
    "bytes of xplanes": Kind(1100, xplanes, _bytes),
    "fields of xplanes": Kind(2400, xplanes, _fields),
    "names of xplanes": Kind(400, xplanes, _named),
    "bytes of Chrome traces": Kind(700, chromes, _bytes),
    "values of Chrome traces": Kind(1300, chromes, _json),
    "names of Chrome traces": Kind(200, chromes, _named),
    "compressed": Kind(500, compressed, _compressed),
    "archives": Kind(500, archives, _archive),
    "HLO text": Kind(400, text_dumps, _lines),
    "HLO protos": Kind(300, proto_dumps, _fields),
    "cards": Kind(400, cards, _yaml),
    "manifests": Kind(400, manifests, _document),
    "compiled": Kind(300, compiled, _document),
}


def events_in(name: str, raw: bytes) -> int | None:
    """Events of a trace, by a reader that shares nothing with ours; None where that cannot read it."""
    from google.protobuf.message import DecodeError

    from tests.synth.protos import XSpace

    try:
        if name.endswith(".gz"):
            name, raw = name.removesuffix(".gz"), gzip.decompress(raw)
        if name.endswith(XPLANE):
            try:
                space = XSpace.FromString(raw)
            except DecodeError:  # such as a name that is not UTF-8
                return wire_tree.count(raw, _EVENT)
            return sum(len(line.events) for plane in space.planes for line in plane.lines)
        if name.endswith(".json"):
            return sum(
                event.get("ph") not in (None, "M") for event in json.loads(raw)["traceEvents"]
            )
    except (
        DecodeError,
        OSError,
        EOFError,
        ValueError,
        KeyError,
        AttributeError,
        TypeError,
        RecursionError,
        gzip.zlib.error,
    ):
        pass
    return None
