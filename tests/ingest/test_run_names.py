"""Runs whose names would repeat have names by folder and session."""

from __future__ import annotations

import pytest

from tests.ingest.traces import tpu_trace, write
from xlahouse.ingest.run import ingest_paths

SESSIONS = "plugins/profile"


def traces(folder, *places):
    """Traces of one host that differ, in these folders."""
    for number, place in enumerate(places):
        write(folder / place / "vllm.xplane.pb", tpu_trace(number))


def names(folder, *paths, **options):
    given = [str(folder / path) for path in paths]
    return sorted(each.name for each in ingest_paths(given, str(folder / "w"), **options))


PHASES = ("prefill_heavy", "decode_heavy", "balanced")
BY_FOLDER = [f"{phase}/{SESSIONS}/2026_04_1{k}" for k, phase in enumerate(PHASES)]


@pytest.mark.parametrize("at_once", [True, False])
def test_sessions_of_one_server_have_the_names_of_their_folders(tmp_path, at_once):
    """As tpu-inference profiles its three phases: the file is named after the server in each."""
    traces(tmp_path / "t", *BY_FOLDER)
    if at_once:
        assert names(tmp_path, "t") == sorted(PHASES)
        return
    first, *later = (f"t/{phase}" for phase in PHASES)
    assert names(tmp_path, first) == ["vllm"]  # it does not repeat yet
    assert [names(tmp_path, phase) for phase in later] == [["decode_heavy"], ["balanced"]]


def test_sessions_of_one_folder_have_its_name_and_theirs(tmp_path):
    traces(tmp_path / "logs", f"{SESSIONS}/s1", f"{SESSIONS}/s2")
    assert names(tmp_path, "logs") == ["logs.s1", "logs.s2"]


def test_files_outside_sessions_have_the_names_of_their_folders(tmp_path):
    traces(tmp_path / "t", "a", "b")
    assert names(tmp_path, "t") == ["a", "b"]


def test_a_name_that_is_given_or_known_stays(tmp_path):
    traces(tmp_path / "t", *BY_FOLDER[:2])
    first = f"t/{PHASES[0]}"
    assert names(tmp_path, first) == ["vllm"]
    assert names(tmp_path, first) == ["vllm"]  # the same trace again
    assert names(tmp_path, f"t/{PHASES[1]}", name="vllm") == ["vllm"]
