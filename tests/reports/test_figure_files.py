"""Figures as files: what a page shows, in ink on paper."""

from __future__ import annotations

import re
import struct

import pytest

from tests.command import run_command
from tests.reports.example import example_run
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import ReportError
from xlahouse.reports.figure_files import render_figures


@pytest.mark.parametrize(
    ("kind", "magic"), [("png", b"\x89PNG"), ("svg", b"<svg"), ("pdf", b"%PDF")]
)
def test_each_figure_of_a_page_is_a_file(two_runs, tmp_path, kind, magic):
    paths = render_figures(two_runs, tmp_path / "f", kind, runs=["aaa"], pages=["intervals"])
    assert paths
    assert paths == sorted(set(paths), key=paths.index)
    for path in paths:
        assert re.fullmatch(rf"run-demo-tp4\.intervals\.[a-z0-9-]+\.{kind}", path.name)
        assert path.read_bytes().startswith(magic)
    assert "run-demo-tp4.intervals.timeline-traffic-over-time-by-axis" in {p.stem for p in paths}


def test_a_png_is_sharp_enough_for_print(two_runs, tmp_path):
    (first, *_) = render_figures(two_runs, tmp_path, "png", runs=["aaa"], pages=["intervals"])
    width, _ = struct.unpack(">II", first.read_bytes()[16:24])
    assert width > 800  # 420 px of plot and its labels, two dots a px


def test_ink_is_dark_whatever_the_page_would_be(two_runs, tmp_path):
    (first, *_) = render_figures(two_runs, tmp_path, "svg", runs=["aaa"], pages=["communication"])
    svg = first.read_text("utf-8")
    assert "currentColor" not in svg
    assert "Traffic by mesh axis" in svg
    # 2.25 x 192 MiB and 2.25 x 36 MiB: the bars' own numbers, for readers of the file.
    assert {float(found) for found in re.findall(r"\(MB\): ([\d.]+)", svg)} == {
        452.984832,
        84.934656,
    }


def test_a_legend_wraps_to_the_width_of_the_figure(two_runs, tmp_path):
    """Four entries of a bar's parts in one row would be twice as wide as the bar, which has 420 px."""
    (first, *_) = render_figures(two_runs, tmp_path, "svg", runs=["aaa"], pages=["overview"])
    width = re.search(r' width="(\d+)"', first.read_text("utf-8"))
    assert 420 < int(width[1]) < 520


@pytest.mark.verify
def test_the_same_run_gives_the_same_bytes(two_runs, tmp_path):
    one, two = (
        [p.read_bytes() for p in render_figures(two_runs, tmp_path / n, "svg", ["aaa"], ["time"])]
        for n in "12"
    )
    assert one == two


def test_a_wrong_page_is_one_clear_line(two_runs, tmp_path):
    with pytest.raises(ReportError, match="no page 'tine'"):
        render_figures(two_runs, tmp_path / "f", "svg", pages=["tine"])
    assert not (tmp_path / "f").exists()


def test_the_verb(tmp_path, monkeypatch, capsys):
    root = write_warehouse(tmp_path / "wh", example_run("a" * 12, "one", {"tp": 4}))
    given = ("report", "time", "-w", root, "-o", tmp_path / "f")
    assert run_command(monkeypatch, *given, "--format", "svg") == 0
    names = capsys.readouterr().out.split()
    assert names == [
        str(path)
        for path in sorted((tmp_path / "f").glob("[!.]*"), key=lambda p: names.index(str(p)))
    ]
    assert run_command(monkeypatch, *given, "--format", "gif") == 2
    assert "gif is not one of html, png, svg, pdf" in capsys.readouterr().err
