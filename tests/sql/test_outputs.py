"""No output is written over a file of the user's, or into a warehouse; what is ours is written again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.command import run_command
from tests.layers import first_few
from tests.reports.example import example_run
from tests.warehouse import write_warehouse

RUN = "a" * 12
# What each verb writes: a file, or a folder.
FILES = {
    "query": ("query", "select name from runs", "-o", "{out}"),
    "perfetto": ("export", "perfetto", RUN, "-o", "{out}"),
    "duckdb": ("export", "duckdb", "-o", "{out}"),
}
FOLDERS = {
    "report": ("report", "quality", "-o", "{out}"),
    "figures": ("report", "index", "--format", "svg", "-o", "{out}"),
    "chakra": ("export", "chakra", RUN, "-o", "{out}"),
    "ccl-bench": ("export", "ccl-bench", RUN, "-o", "{out}"),
    "dataset": ("export", "dataset", "--views", "latency", "--no-csv", "-o", "{out}"),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_warehouse(
        tmp_path_factory.mktemp("outputs") / "w", example_run(RUN, "demo", {"tp": 4})
    )


@pytest.fixture
def write(root, monkeypatch, capsys):
    """`write(words, out, *more)` runs a verb; its exit code and the last line of its complaint."""

    def run(words, out, *more):
        filled = [word.format(out=out) for word in words]
        code = run_command(monkeypatch, *filled, "-w", root, *more)
        return code, (capsys.readouterr().err.splitlines() or [""])[-1]

    return run


@pytest.mark.parametrize(
    "verb", ["query", "perfetto", pytest.param("duckdb", marks=pytest.mark.verify)]
)
def test_a_file_of_the_users_stays(write, tmp_path, verb):
    out = tmp_path / "kept.csv"
    out.write_text("mine")
    code, said = write(FILES[verb], out)
    assert code == 1
    assert said == (
        f"xlahouse: {out} exists and is not as xlahouse left it; give --force to write over it, or another -o"
    )
    assert out.read_text() == "mine"
    assert write(FILES[verb], out, "--force")[0] == 0
    assert out.read_bytes() != b"mine"
    assert write(FILES[verb], out)[0] == 0  # it is ours now
    with out.open("ab") as file:
        file.write(b"my note")
    assert write(FILES[verb], out)[0] == 1
    assert out.read_bytes().endswith(b"my note")


@pytest.mark.parametrize("verb", first_few(FOLDERS, 1))
def test_a_folder_of_the_users_stays(write, tmp_path, verb):
    if verb == "figures":
        pytest.importorskip("vl_convert")
    out = tmp_path / "folder"
    out.mkdir()
    (out / "thesis.tex").write_text("mine")
    code, said = write(FOLDERS[verb], out)
    assert (code, "give --force" in said) == (1, True)
    assert os.listdir(out) == ["thesis.tex"]
    assert write(FOLDERS[verb], out, "--force")[0] == 0
    assert (out / "thesis.tex").read_text() == "mine"
    assert len(os.listdir(out)) > 1


@pytest.mark.parametrize("verb", first_few(FOLDERS, 1))
def test_a_folder_of_ours_is_written_again(write, tmp_path, verb):
    out = tmp_path / "new"
    assert write(FOLDERS[verb], out)[0] == 0
    before = sorted(os.listdir(out))
    assert write(FOLDERS[verb], out)[0] == 0
    assert sorted(os.listdir(out)) == before
    (tmp_path / "file").write_text("mine")
    code, said = write(FOLDERS[verb], tmp_path / "file", "--force")
    assert (code, "is a file" in said) == (1, True)


@pytest.mark.parametrize("verb", [*FILES, *FOLDERS])
def test_nothing_goes_into_a_warehouse(write, root, tmp_path, verb):
    words = (FILES | FOLDERS)[verb]
    (tmp_path / "link").symlink_to(root)
    before = sorted(root.rglob("*"))
    for out in (root / "x.csv", root / "tables" / "deep" / "x", tmp_path / "link" / "x", root):
        code, said = write(words, out, "--force")
        assert (code, "is in the warehouse" in said) == (1, True), said
    assert sorted(root.rglob("*")) == before


def test_rows_go_into_a_stream(write, tmp_path):
    assert write(FILES["query"], "/dev/null")[0] == 0
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code, said = write(FILES["query"], pipe)
    assert (code, f"{pipe}: no process reads from it; start its reader first" in said) == (1, True)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert write(FILES["query"], pipe)[0] == 0
    assert os.read(reader, 100).decode().splitlines() == ["name", "----", "demo"]
    os.close(reader)


@pytest.mark.parametrize("verb", ["perfetto", "duckdb"])
def test_a_file_takes_no_place_of_a_pipe(write, tmp_path, verb):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for more in ((), ("--force",)):
        code, said = write(FILES[verb], pipe, *more)
        assert (code, said) == (1, f"xlahouse: {pipe} is a pipe or a device; name a file with -o")
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_record_that_cannot_be_kept_costs_a_force(write, tmp_path, monkeypatch):
    (tmp_path / "state").write_text("a file, not a folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    out = tmp_path / "a.csv"
    assert write(FILES["query"], out)[0] == 0
    assert write(FILES["query"], out)[0] == 1
    assert write(FILES["query"], out, "--force")[0] == 0
