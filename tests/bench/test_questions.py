"""The ten questions: ours find rows, and the comparison distinguishes answers."""

from __future__ import annotations

import pytest

from tests.bench.questions import QUESTIONS, differences
from tests.synth.cases import CASES
from tests.synth.write import write_run
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql import Warehouse


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    folder = tmp_path_factory.mktemp("questions")
    write_run(CASES["tp4"], folder / "t")
    ingest_paths([str(folder / "t")], str(folder / "w"))
    with Warehouse(folder / "w") as opened:
        yield opened


@pytest.mark.parametrize("entry", QUESTIONS, ids=lambda entry: entry["question"])
def test_ours_answer(entry, warehouse):
    assert warehouse.query(entry["ours"]).rows


def test_there_are_ten():
    assert len(QUESTIONS) == 10


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ([["0", "5"]], [["0", "5"]], True),
        ([["0", "1000.4"]], [["0", "1000"]], True),
        ([["0", "1000.4"]], [["0", "1010"]], False),
        ([["0", "5"]], [], False),
    ],
)
def test_answers_are_distinguished(ours, theirs, same):
    assert (differences(ours, theirs) is None) is same
