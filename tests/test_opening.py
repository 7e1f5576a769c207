"""Only `capture/opening.py` and `ingest/events/files.py` open what users name; the rest goes through them."""

from __future__ import annotations

import ast
import os

import pytest

from tests.test_rooms import ROOT, modules
from xlahouse.capture.opening import open_regular, read_regular

DOORS = ("capture/opening.py", "ingest/events/files.py")
READING = {"open", "fdopen", "read_text", "read_bytes", "cat_file", "mmap", "OSFile", "safe_open"}
TEMPORARY = {
    "TemporaryDirectory",
    "TemporaryFile",
    "NamedTemporaryFile",
    "mkdtemp",
    "mkstemp",
    "gettempdir",
}
# File, and why what it reads by itself is not a file that a user names.
OWN = {
    "capture/compile/cell.py": "code of the package, and what compile wrote",
    "capture/compile/child.py": "the log of a process that compile started",
    "capture/compile/compiler.py": "a script of its own: the program that compile wrote",
    "capture/compile/program.py": "code of the package, and what compile wrote",
    "capture/models/checkpoint.py": "safetensors opens the files that lie in a checkpoint's folder",
    "capture/models/presets.py": "a file of the package",
    "capture/readme_tables.py": "a document of the project",
    "capture/run/process.py": "the log of a process that capture started",
    "capture/run/devices.py": "what the system says of its PCI devices",
    "capture/run/warm.py": "a pipe to a process that capture started",
    "capture/scratch.py": "the lock of a folder of temporary files",
    "capture/tpu/package.py": "facts of the installed package",
    "ingest/archives.py": "archives read from a file that is open already",
    "ingest/store/packs.py": "the record of a pack, which compact wrote",
    "ingest/store/store.py": "warehouse.json and leases, which ingest wrote",
    "capture/tpu/run.py": "an archive in memory",
    "reports/page.py": "a file of the package",
    "reports/site.py": "SiteFiles.open, a constructor",
    "reports/site_files.py": "the record in a site's folder",
    "reports/unchanged.py": "files of the package",
    "sql/cli/app.py": "/dev/null",
    "sql/export/catalogue.py": "a document of the project",
    "sql/export/examples.py": "a file of the package",
    "sql/library.py": "views of the package",
    "sql/limits.py": "what the system says of this process",
    "sql/outputs.py": "the record of files that xlahouse wrote",
    "sql/serve/web.py": "a file of the package",
    "sql/place.py": "files of a remote warehouse",
    "ingest/hlo/dumps.py": "a remote or checked dump",
    "ingest/xplane/decode.py": "/dev/null",
}


def readings(tree: ast.AST) -> list[str]:
    """The calls in a module that open or read a file, without those that open one to write."""
    found = []
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "attr", None) or getattr(call.func, "id", "")
        modes = [part.value for part in call.args if isinstance(part, ast.Constant)]
        writes = any(isinstance(mode, str) and mode[:1] in ("w", "x", "a") for mode in modes)
        if name in READING and not writes:
            found.append(f"{call.lineno}: {ast.unparse(call)}")
    return found


def test_files_are_opened_in_one_place():
    found = {
        str(path.relative_to(ROOT)): readings(ast.parse(path.read_text("utf-8")))
        for path in modules().values()
    }
    wrong = {name: calls for name, calls in found.items() if calls and name not in (*DOORS, *OWN)}
    assert wrong == {}
    assert [name for name in OWN if not found.get(name)] == []


def test_temporary_files_lie_where_a_killed_process_leaves_none():
    """Or in a folder that the user names; compiler.py is a script of its own."""
    own = {"capture/scratch.py", "capture/compile/compiler.py"}
    wrong = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in modules().values()
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func).rpartition(".")[2] in TEMPORARY
        and all(given.arg != "dir" for given in call.keywords)
        and str(path.relative_to(ROOT)) not in own
    ]
    assert wrong == []


def test_a_regular_file_is_read(tmp_path):
    (tmp_path / "a").write_bytes(b"text")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with open_regular(tmp_path / "b") as file:
        assert file.read() == b"text"


@pytest.mark.parametrize(
    ("kind", "said"), [("pipe", "a pipe"), ("device", "a device"), ("folder", "Is a directory")]
)
def test_anything_else_is_refused(kind, said, tmp_path):
    path = tmp_path / "a"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(OSError, match=said) as caught:
        open_regular(path)
    assert caught.value.filename == str(path)


def test_a_text_has_a_largest_size(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"12345")
    with monkeypatch.context() as changed:
        changed.setenv("XLAHOUSE_LIMITS", "text_bytes=4")
        with pytest.raises(OSError, match=r"more than 4 bytes of a plan.*--limits text_bytes="):
            read_regular(tmp_path / "a")
    assert read_regular(tmp_path / "a") == b"12345"
