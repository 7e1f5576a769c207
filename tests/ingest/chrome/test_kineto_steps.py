"""Steps of PyTorch's profiler: every kernel that the host launched in one is in it, collectives too."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import numpy as np
import pytest

from tests.ingest.chrome_build import document, event
from tests.ingest.traces import rows
from tests.samples import sample
from xlahouse.ingest.chrome.read import read_chrome
from xlahouse.sql.warehouse import Warehouse

SAMPLE = "kineto/sampled_rank1.json.gz"
KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")


def launched_kernels():
    """(step, kernel) of the sample, by the standard library: by the time of the call that a kernel names."""
    events = json.loads(gzip.decompress(sample(SAMPLE).read_bytes()))["traceEvents"]
    steps = sorted(
        (each["ts"], each["ts"] + each["dur"])
        for each in events
        if each["name"].startswith("ProfilerStep#") and each["cat"] == "user_annotation"
    )
    calls = {
        each["args"]["correlation"]: each["ts"]
        for each in events
        if each.get("cat") == "cuda_runtime"
    }
    for each in events:
        if each.get("cat") in KERNELS:
            called = calls[each["args"]["correlation"]]
            yield next(n for n, (start, end) in enumerate(steps) if start <= called < end), each


def test_kernels_are_in_the_step_whose_host_launched_them(sample_warehouse):
    ops = rows(sample_warehouse(SAMPLE), "ops")
    named = zip(ops["launch"], ops["kernel"].fill_null(ops["op"]), strict=True)
    assert Counter(named) == Counter((n, kernel["name"]) for n, kernel in launched_kernels())


def test_collectives_that_no_kernel_hides_are_exposed(sample_warehouse):
    """Painted by the microsecond: compute (a memset too), else a collective, else a copy, else idle."""
    windows, painted = {}, {}
    for step, kernel in launched_kernels():
        rank = 1 if kernel["cat"] == "gpu_memcpy" else 2 if "nccl" in kernel["name"] else 3
        first, last = windows.get(step, (10**18, 0))
        start, end = kernel["ts"], kernel["ts"] + kernel["dur"]
        windows[step] = (min(first, start), max(last, end))
        painted.setdefault(step, []).append((start, end, rank))
    expected = []
    for step, (first, last) in sorted(windows.items()):
        line = np.zeros(int(last - first), dtype=int)
        for start, end, rank in painted[step]:
            part = line[int(start - first) : int(end - first)]
            np.maximum(part, rank, out=part)
        expected.append([int((line == rank).sum()) * 10**6 for rank in (3, 2, 1, 0)])
    with Warehouse(sample_warehouse(SAMPLE)) as warehouse:
        found = warehouse.query(
            "select compute_ps, exposed_ps, exposed_copy_ps, idle_ps from device_time_v1 order by step"
        ).rows
    assert [list(row) for row in found] == expected


@pytest.mark.parametrize(
    ("kernel", "unseen"), [("ncclKernel_AllGather_RING", 0), ("renamed_RING", 1)]
)
def test_a_collective_whose_kernels_have_unknown_names_is_a_finding(kernel, unseen):
    """The host marks an all-gather around the launches of a copy kernel and of the transfer's own."""

    def on_host(name, ts, dur, cat, **args):
        return event(name, ts, dur, pid=9, tid=9, cat=cat, args=args)

    def ran(name, ts, **args):
        return event(
            name, ts, 5, pid=0, tid=7, cat="kernel", args={"device": 0, "stream": 7, **args}
        )

    raw = document(
        on_host("nccl:all_gather", 10, 9, "user_annotation"),
        on_host("cudaLaunchKernel", 11, 1, "cuda_runtime", correlation=1),
        on_host("cudaLaunchKernel", 13, 1, "cuda_runtime", correlation=2),
        on_host("cudaLaunchKernel", 30, 1, "cuda_runtime", correlation=3),
        ran("flatten", 20, correlation=1), ran(kernel, 30, correlation=2),
        ran("gemm", 40, correlation=3), tail=',"schemaVersion":1}',
    )  # fmt: skip
    issues = [issue for plane in read_chrome(raw, "f.json").planes for issue in plane.issues]
    assert sum(issue.count for issue in issues if issue.code == "collective_unseen") == unseen
