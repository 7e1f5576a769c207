"""Which runs are spread: by the sizes of their files alone."""

from __future__ import annotations

import os

import pytest

from xlahouse.ingest.events.run_files import RunFiles
from xlahouse.ingest.large_runs import LARGE_BYTES, large_runs

MIB = 1 << 20
LARGE = LARGE_BYTES // MIB


@pytest.mark.parametrize(
    ("sizes", "workers", "expected"),
    [
        pytest.param([[LARGE // 2, LARGE // 2]], 2, [0], id="a large run"),
        pytest.param([[LARGE // 2, LARGE // 2 - 1]], 2, [], id="too small"),
        pytest.param([[LARGE]], 2, [], id="one file"),
        pytest.param([[LARGE // 2, LARGE // 2]], 1, [], id="one worker"),
        pytest.param([[LARGE, 1], [LARGE, 1], [LARGE, 1]], 2, [0, 1, 2], id="three on two workers"),
        pytest.param([[LARGE, LARGE]] * 4, 2, [], id="four of equal size on two workers"),
        pytest.param([[LARGE, LARGE]] * 4, 3, [0, 1, 2, 3], id="four on three workers"),
        pytest.param(
            [[LARGE, LARGE]] * 5 + [[9 * LARGE, 9 * LARGE], [40 * LARGE]],
            2,
            [5],
            id="the one of more than half a share, of runs of several files",
        ),
    ],
)
def test_large_runs(tmp_path, sizes, workers, expected):
    runs = []
    for number, files in enumerate(sizes):
        paths = [tmp_path / f"{number}-{place}.xplane.pb" for place in range(len(files))]
        for path, size in zip(paths, files, strict=True):
            path.touch()
            os.truncate(path, size * MIB)
        runs.append(RunFiles(str(number), tuple(map(str, paths))))
    assert large_runs(runs, workers) == {runs[number] for number in expected}


def test_a_file_that_is_gone_is_reported_elsewhere(tmp_path):
    assert large_runs([RunFiles("a", (str(tmp_path / "a"), "no://b"))], 2) == frozenset()
