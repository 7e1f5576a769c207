"""Packs this xlahouse as a wheel, so that TPU VMs run the same code as this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import unquote, urlparse

from xlahouse.capture.errors import CaptureError


def source_folder() -> Path | None:
    """The checkout that this xlahouse runs from; None where it was installed from elsewhere."""
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
        CaptureError: there is no checkout, or it cannot be built.
    """
    folder = source_folder()
    if folder is None:
        raise CaptureError(
            "xlahouse does not run from a checkout, so there is nothing to send to the TPU VM; "
            "say with --install what pip is to install there: a wheel, or an address of git"
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
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise CaptureError(f"the wheel of {folder} cannot be built: {last}")
    return wheels[-1]
