"""Slices of real Chrome traces with bytes changed: what is lost is counted, and little is."""

from __future__ import annotations

import gzip
import json
import random

import pytest

from tests.layers import first_few
from tests.samples import sample
from xlahouse.ingest.chrome.read import read_chrome

SAMPLES = ["tpu/vllm_qwen3_tp2.trace.json.gz", "kineto/amd_minitoy.json.gz"]
SLICE = 60
SEEDS = range(100)


def slice_of(name):
    """A file of the sample's names of lines, and SLICE events from its middle."""
    whole = json.loads(gzip.decompress(sample(name).read_bytes()))
    events = [each for each in whole["traceEvents"] if each]
    named = [each for each in events if each["ph"] == "M"]
    others = [each for each in events if each["ph"] != "M"]
    middle = len(others) // 2
    return json.dumps(whole | {"traceEvents": named + others[middle : middle + SLICE]}).encode()


def read(raw):
    """(events read, count of each issue)."""
    found = read_chrome(raw, "f")
    total = sum(plane.coverage["events_read"].sum() for plane in found.planes)
    issues = [*found.issues, *(issue for plane in found.planes for issue in plane.issues)]
    said = {}
    for issue in issues:
        said[issue.code] = said.get(issue.code, 0) + issue.count
    return total, said


def events_of(raw):
    try:
        listed = json.loads(raw.decode())["traceEvents"]
        return sum(each.get("ph") not in (None, "M") for each in listed)
    except (ValueError, KeyError, AttributeError, TypeError):
        return None


@pytest.mark.parametrize("name", first_few(SAMPLES, 0))
def test_changed_bytes_leave_every_event_read_or_counted(name):
    whole = slice_of(name)
    assert read(whole)[0] == SLICE
    begin = whole.index(b'"traceEvents"') + 20
    for seed in SEEDS:
        rng, raw = random.Random(seed), bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            byte = rng.choice([rng.randrange(256), *b'{}[],:"\\'])
            raw[rng.randrange(begin, len(raw))] = byte
        expected = events_of(bytes(raw))
        total, said = read(bytes(raw))
        least = SLICE if expected is None else expected
        assert total >= least, (seed, total, said)
