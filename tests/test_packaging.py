"""What is shipped: the wheel holds every file that git does, and its verbs work without torch."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("capture", "ingest", "views", "sql", "reports")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    source = tmp_path_factory.mktemp("source")
    files = tracked("*")
    for name in files:
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    built = subprocess.run(
        [
            sys.executable,
            "-m",
            "build",
            "--wheel",
            "--no-isolation",
            "--outdir",
            str(out),
            str(source),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return next(out.glob("*.whl"))


def tracked(*patterns):
    """Files that git knows, or would add, and that exist."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_the_wheel_holds_every_file_that_git_does(wheel):
    with zipfile.ZipFile(wheel) as archive:
        inside = {
            name.removeprefix("xlahouse/")
            for name in archive.namelist()
            if name.startswith("xlahouse/")
        }
    assert inside == set(tracked(*FOLDERS))


@pytest.mark.verify
def test_every_verb_but_capture_works_without_torch(tmp_path):
    """An interpreter in which torch cannot be imported stands for an environment without it."""
    from tests.ingest.traces import tpu_trace

    trace = tmp_path / "a.xplane.pb"
    trace.write_bytes(tpu_trace())
    block = (
        "import sys\n"
        "for name in ('torch', 'torch_xla', 'transformers', 'safetensors'):\n"
        "    sys.modules[name] = None\n"
        "from xlahouse.sql.cli import main\n"
        "main()\n"
    )

    def xlahouse(*words):
        command = [sys.executable, "-c", block, *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    for words in (
        ("ingest", str(trace)),
        ("runs",),
        ("query", "select count(*) as n from collectives"),
        ("views",),
        ("check",),
        ("report", "index", "overview", "-o", "site"),
    ):
        done = xlahouse(*words)
        assert done.returncode == 0, (words, done.stderr)
    assert (tmp_path / "site/index.html").is_file()
    plan = tmp_path / "plan.yaml"
    plan.write_text((ROOT / "capture/plans/demo.yaml").read_text())
    refused = xlahouse("capture", str(plan))
    assert refused.returncode == 1
    assert "xlahouse[capture]" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_top_level_is_what_the_customer_fixed():
    top = {name.split("/")[0] for name in tracked("*")}
    assert top == {
        *FOLDERS,
        "tests",
        "README.md",
        "pyproject.toml",
        "LICENSE",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "Makefile",
        ".gitignore",
        ".ci",
    }
