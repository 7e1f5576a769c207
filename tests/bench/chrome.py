"""Reading Chrome JSON: a million events of XLA's profiler, and 109,000 events of PyTorch's."""

from __future__ import annotations

import atexit
import gzip
import json
import math
import subprocess
import zlib
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import msgspec

from tests.bench.peers import PYTHON, has
from tests.bench.registry import Benchmark, register
from tests.samples import SAMPLES
from xlahouse.ingest.chrome.read import read_chrome

XLA, XLA_EVENTS = SAMPLES / "cpu/torch_xla_mlp_4dev.trace.json.gz", 1_000_000
KINETO, KINETO_EVENTS = SAMPLES / "kineto/sampled_rank1.json.gz", 109_000
_HTA_PARSE = """
import logging, sys
from hta.common.trace import parse_trace_file
logging.disable(logging.CRITICAL)
print("ready", flush=True)
for path in sys.stdin:
    print(len(parse_trace_file(path.strip())[1]), flush=True)
"""


class _Event(msgspec.Struct, gc=False):
    """An event as the bare decoder reads it."""

    ph: str = ""
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float = 0.0
    dur: float = 0.0
    args: msgspec.Raw = msgspec.Raw(b"")


class _Document(msgspec.Struct):
    traceEvents: list[_Event]


def grow(sample: Path, events: int) -> bytes | str:
    """The sample's events repeated, each time later, as gzip; or why it cannot be made."""
    if not sample.is_file():
        return f"no sample trace at {sample}"
    document = json.loads(gzip.decompress(sample.read_bytes()))
    own = [each for each in document["traceEvents"] if "ts" in each and each["ph"] != "M"]
    names = [each for each in document["traceEvents"] if each.get("ph") == "M"]
    first = min(each["ts"] for each in own)
    last = max(each["ts"] + each.get("dur", 0) for each in own)
    span = math.ceil(last - first) + 1  # an integer, so that integral times stay integral
    grown = [
        each | {"ts": each["ts"] + turn * span}
        for turn in range(-(-events // len(own)))
        for each in own
    ]
    document["traceEvents"] = [*names, *grown[:events]]
    return gzip.compress(msgspec.json.encode(document), 6)


def ours(raw: bytes) -> int:
    read = read_chrome(raw, "f.trace.json.gz")
    return sum(int(plane.coverage["rows_written"].sum()) for plane in read.planes)


def bare(raw: bytes) -> int:
    return len(msgspec.json.decode(zlib.decompress(raw, 31), type=_Document).traceEvents)


@cache
def _hta_process() -> subprocess.Popen[str]:
    """Started once, so that its imports are not timed."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([str(PYTHON), "-c", _HTA_PARSE], stderr=subprocess.DEVNULL, **pipes)
    atexit.register(process.kill)
    process.stdout.readline()
    return process


def hta(raw: bytes) -> int:
    process = _hta_process()
    path = Path(mkdtemp()) / "rank0.json.gz"
    path.write_bytes(raw)
    process.stdin.write(f"{path}\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def million() -> bytes | str:
    return grow(XLA, XLA_EVENTS)


def kineto() -> bytes | str:
    if has("HolisticTraceAnalysis"):
        _hta_process()
    return grow(KINETO, KINETO_EVENTS)


register(
    Benchmark("Chrome JSON, 1 M events", million, ours, {"gunzip and msgspec": bare}, quick=True)
)
register(
    Benchmark(
        "Kineto, 109,000 events",
        kineto,
        ours,
        {"gunzip and msgspec": bare}
        | ({"HolisticTraceAnalysis": hta} if has("HolisticTraceAnalysis") else {}),
        quick=True,
    )
)
