"""The tutorial: its commands run on the public traces, and print what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.samples import sample
from tests.shell_sessions import commands, fits, replay

TUTORIAL = (Path(__file__).parents[1] / "reports" / "TUTORIAL.md").read_text("utf-8")


def until(heading):
    """The commands before a heading."""
    text, found, _ = TUTORIAL.partition(f"\n## {heading}")
    assert found
    session = commands(text)
    assert len(session) == text.count("\n$ ") + text.count("```python")
    return session


def test_what_is_slow_and_why(tmp_path, monkeypatch, capsys):
    sample("tpu/vllm_qwen3_tp2.trace.json.gz")
    monkeypatch.chdir(tmp_path)
    session = until("4. ")
    assert len(session) == 6
    replay(session, monkeypatch, capsys)


@pytest.mark.verify
def test_from_a_trace_to_a_figure(tmp_path, monkeypatch, capsys):
    """All but the demo's part, which is in tests/test_demo.py."""
    for name in ("tpu/vllm_qwen3_tp2.trace.json.gz", "tpu/v6e_4dev_jax_psum_offload.xplane.pb"):
        sample(name)
    monkeypatch.chdir(tmp_path)
    session = until("7. ")
    assert len(session) == 15
    replay(session, monkeypatch, capsys)
    [figure] = (tmp_path / "tutorial" / "figures").glob("[!.]*")
    assert figure.read_bytes().startswith(b"%PDF-")
    svg = (tmp_path / "tutorial/exposed.svg").read_text("utf-8")
    assert "Exposed communication, Qwen3, tp=2" in svg


@pytest.mark.parametrize(
    ("shown", "does"),
    [
        ("one\ntwo\nthree\n", True),
        ("one\n…\n", True),
        ("…\nthree\n", True),
        ("…\none\ntwo\nthree\n…\n", True),  # a line of it may stand for no line
        ("one\nt…o\n…\n", True),
        ("one\ntwo\n", False),
        ("one\nt…\n", False),  # within a line it stands for text of that line alone
        ("two\n…\n", False),
        ("…\ntwo\n", False),
        ("", False),
    ],
)
def test_what_is_left_out_may_be_anything_and_the_rest_not(shown, does):
    assert fits("one\ntwo\nthree\n", shown) is does


def test_commands_go_on_over_lines_while_a_quote_is_open():
    first, second = commands('text\n```\n$ xlahouse query "a\n  b" -w w\nx\n\n$ export A=1\n```\n')
    assert first.words == ("xlahouse", "query", "a\n  b", "-w", "w")
    assert (first.shown, second.words, second.shown) == ("x\n", ("export", "A=1"), "")
