"""Outcomes of the benchmarks: chosen, saved, compared and shown; the numbers here are invented."""

from __future__ import annotations

import re

import pytest

from tests.bench import registry
from tests.bench.__main__ import check_all, load_all
from tests.bench.outcome import (
    BASELINE,
    Outcome,
    against,
    merged,
    read_outcome,
    save,
    slowness,
)
from tests.bench.page import HEAD, PAGE, SECTIONS, page
from tests.bench.registry import REGISTERED, Benchmark, Row, check, choose


def outcome(*rows):
    return Outcome("2026-01-02", "2 cores", {"xlahouse": "1"}, list(rows))


def pair(benchmark, ours, theirs, peak=None, cpu=None):
    return (
        Row(benchmark, "xlahouse", ours, ours, 1.0, peak, cpu),
        Row(benchmark, "peer", theirs, theirs, theirs / ours),
    )


def test_ours_is_compared_with_the_baseline_on_a_slower_machine():
    baseline = outcome(*pair("a", 1.0, 10.0), *pair("b", 2.0, 4.0))
    now = [*pair("a", 3.0, 20.0), *pair("b", 4.0, 8.0), *pair("new", 1.0, 5.0)]
    assert slowness(now, baseline) == 2.0  # both peers take twice as long
    assert against(now[0], baseline, 2.0) == 1.5  # 3 s where 2 s would be as before
    assert against(now[2], baseline, 2.0) == 1.0
    assert against(now[1], baseline, 2.0) is None  # a peer is not ours
    assert against(now[4], baseline, 2.0) is None  # not in the baseline


def test_without_peers_in_common_the_clock_counts_as_it_is():
    assert slowness([Row("a", "xlahouse", 1, 1, 1)], outcome(*pair("b", 1, 1))) == 1.0


def test_an_outcome_is_kept_whole_and_another_adds_to_it(tmp_path):
    old = outcome(*pair("a", 1.0, 2.0), *pair("b", 1.0, 2.0))
    save(old, tmp_path / "o.json")
    assert read_outcome(tmp_path / "o.json") == old
    new = outcome(*pair("b", 5.0, 2.0, peak=7))
    assert merged(old, new).rows == [*pair("a", 1.0, 2.0), *pair("b", 5.0, 2.0, peak=7)]


def test_a_section_has_a_line_for_each_contender():
    shown = page(outcome(*pair("decode xplane", 0.0123, 1.5, peak=2_000_000, cpu=0.25)))
    assert shown.startswith(f"{HEAD}\n\nMeasured on 2026-01-02: 2 cores; xlahouse 1.\n")
    assert shown.count("\n## ") == 1  # sections without rows are left out
    assert shown.splitlines()[-4:] == [
        "| benchmark | contender | median | times ours | CPU | peak memory |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        "| decode xplane | xlahouse | 12.3 ms | 1.00 | 0.25 s | 2 MB |",
        "|  | peer | 1.50 s | 121.95 |  |  |",
    ]


def test_views_have_a_column_for_each_contender():
    alone = Row("view latency, 1 M ops", "xlahouse", 0.05, 0.05, 1.0)
    shown = page(outcome(alone, *pair("view bubble, 10 M ops", 2.0, 0.3)))
    assert shown.splitlines()[-4:] == [
        "| view | xlahouse | peer |",
        "| --- | ---: | ---: |",
        "| latency, 1 M ops | 50.0 ms |  |",
        "| bubble, 10 M ops | 2.00 s | 0.30 s |",
    ]


def test_modes_and_words_choose(monkeypatch):
    made = [Benchmark(name, int, print, quick=name == "fast") for name in ("fast", "slow one", "x")]
    monkeypatch.setattr(registry, "REGISTERED", made)
    names = [[b.name for b in choose(*given)] for given in (([], False), (["slow", "x"], False))]
    assert names == [["fast"], ["slow one", "x"]]
    assert choose([], full=True) == made
    with pytest.raises(KeyError, match="nothing"):
        choose(["nothing"], full=False)


def test_a_peer_that_must_agree_and_does_not_is_an_error():
    def benchmark(theirs):
        return Benchmark("b", lambda: 3, lambda given: given, {"p": theirs}, same=frozenset({"p"}))

    assert check(benchmark(lambda given: 3)) is None
    with pytest.raises(AssertionError, match="b: p gives 4, ours 3"):
        check(benchmark(lambda given: 4))
    assert check(Benchmark("b", lambda: "no sample", print)) == "no sample"


def test_checks_report_wrong_results_and_what_could_not_run(capsys):
    def fails(given):
        raise AssertionError("1 event of 2")

    chosen = [
        Benchmark("good", int, int, proof=lambda given: None),
        Benchmark("bad", int, int, proof=fails),
        Benchmark("absent", lambda: "no sample", int),
    ]
    assert check_all(chosen) == 1
    assert capsys.readouterr().out.splitlines() == [
        "good: right",
        "bad: WRONG: 1 event of 2",
        "absent: skipped, no sample",
    ]
    assert check_all(chosen[::2]) == 0


def test_names_are_unique_and_the_quick_mode_is_not_empty():
    load_all()
    names = [benchmark.name for benchmark in REGISTERED]
    assert len(names) == len(set(names))
    assert choose([], full=False)


def test_the_page_is_the_one_that_the_baseline_gives():
    current = page(read_outcome(BASELINE))
    assert PAGE.read_text("utf-8") == current, "run: python -m tests.bench --page"


def test_every_benchmark_is_in_one_section():
    load_all()
    names = {benchmark.name for benchmark in REGISTERED}
    for name in names | {row.benchmark for row in read_outcome(BASELINE).rows}:
        titles = [section.title for section in SECTIONS if re.search(section.names, name)]
        assert len(titles) == 1, (name, titles)


def test_the_baseline_has_only_known_benchmarks():
    load_all()
    known = {benchmark.name for benchmark in REGISTERED}
    assert {row.benchmark for row in read_outcome(BASELINE).rows} <= known
