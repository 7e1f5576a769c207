"""A sample of the campaign of mutants, and that its judge sees each kind of fault.

`python -m tests.ingest.mutants LOG 0 10000` runs all of it.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.ingest.mutants import trial
from tests.ingest.mutants.campaign import Plan, campaign
from tests.ingest.mutants.kinds import KINDS, events_in
from tests.ingest.mutants.trial import Mutant, ingest_trials, whole
from tests.layers import drawn
from xlahouse.capture.errors import XlahouseError
from xlahouse.ingest import read_files

FEW = Plan(batch=3, relations=1, check_each=1 << 30, report_each=1 << 30)
DRAWN = drawn("mutants").sample(range(10**9), 40)
MANY = Plan(batch=40, relations=3, check_each=1, report_each=1)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measures by /proc")
@pytest.mark.parametrize(
    ("numbers", "plan"),
    [(range(3), FEW), pytest.param(DRAWN, MANY, marks=pytest.mark.verify)],
    ids=["few", "many"],
)
def test_mutants(numbers, plan):
    for kind in KINDS.values():
        kind.sources()  # skips here where a sample is missing, not in the campaign's process
    assert [found for found in campaign(numbers, plan) if found.faults] == []


def test_the_other_reader_finds_the_events_that_we_find():
    """Otherwise the judge would miss a silent loss."""
    kinds = ("bytes of xplanes", "bytes of Chrome traces", "compressed")
    for kind, source in [(k, each) for k in kinds for each in KINDS[k].sources()[:12:5]]:
        counted = events_in(source.target, source.files[source.target])
        assert whole(kind, source).events == counted or source.target.endswith(".zst"), source


def first_xplane():
    source = next(s for s in KINDS["bytes of xplanes"].sources() if s.name == "small")
    return Mutant(1, "bytes of xplanes", source, source.raw)


def faults_of(mutant, folder):
    (found,) = ingest_trials([mutant], folder / "t", folder / "w")
    return found.faults


def test_an_unchanged_trace_has_no_fault(tmp_path):
    assert faults_of(first_xplane(), tmp_path) == []


def test_the_judge_sees_a_loss(tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "events_in", lambda name, raw: 3)
    assert faults_of(first_xplane(), tmp_path) == ["silent loss: 2 events of 3 (counted)"]


def test_the_judge_sees_what_no_code_foresaw(tmp_path, monkeypatch):
    def fail(raw, path, rank):
        raise ValueError("damage")

    whole(first_xplane().kind, first_xplane().source)
    monkeypatch.setattr(read_files, "read_trace", fail)
    told = faults_of(first_xplane(), tmp_path)
    assert told[0].startswith("unforeseen: host0: ValueError: damage")
    assert told[-1].startswith("the good trace is not there")


def test_the_judge_sees_an_ingest_that_ends(tmp_path, monkeypatch):
    def refuse(paths, root, **options):
        raise XlahouseError("all of it")

    monkeypatch.setattr(trial, "ingest_paths", refuse)
    (told,) = faults_of(first_xplane(), tmp_path)
    assert told.startswith("the whole ingest ended: ")


def test_every_kind_changes_its_source():
    for name, kind in KINDS.items():
        draw = random.Random(name)
        changed = [kind.change(source, draw) != source.raw for source in kind.sources()[:6]]
        assert any(changed), name
