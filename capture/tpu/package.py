"""Builds a wheel of this xlahouse, so that TPU VMs run the same code as this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import unquote, urlparse

from xlahouse.capture.errors import CaptureError


def source_folder() -> Path | None:
    """The checkout that this xlahouse runs from; None if it was not installed from one."""
    try:
        origin = json.loads(distribution("xlahouse").read_text("direct_url.json") or "{}")
    except ValueError:
        return None
    url = urlparse(str(origin.get("url", "")))
    folder = Path(unquote(url.path))
    return folder if url.scheme == "file" and (folder / "pyproject.toml").is_file() else None


def build_wheel(out: Path) -> Path:
    """Build the wheel of this checkout into a folder.

    Raises:
        CaptureError: there is no checkout, or the build fails.
    """
    folder = source_folder()
    if folder is None:
        raise CaptureError(
            "xlahouse does not run from a checkout, so there is no source to send to the TPU VM; "
            "name a wheel or a git address for pip with --install"
        )
    line = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "-w",
        str(out),
        str(folder),
    ]
    done = subprocess.run(line, capture_output=True, text=True)
    wheels = sorted(out.glob("xlahouse-*.whl"))
    if done.returncode or not wheels:
        last = (done.stderr.strip().splitlines() or ["pip printed nothing"])[-1]
        raise CaptureError(f"cannot build the wheel of {folder}: {last}")
    return wheels[-1]
