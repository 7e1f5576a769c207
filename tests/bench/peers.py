"""Where the peers are installed: in a venv of their own, since they need other versions of packages.

`make bench` makes the venv.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

VENV = Path(os.environ.get("XLAHOUSE_PEERS") or Path(__file__).parents[2] / ".venv-peers")
PYTHON, XPROF = VENV / "bin/python", VENV / "bin/xprof"
DISTRIBUTIONS = ("xprof", "HolisticTraceAnalysis", "pandas", "protobuf")
WHY_NOT = f"its peers are not installed in {VENV.name}: make bench installs them"

_VERSIONS = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


@cache
def versions() -> dict[str, str]:
    """Distribution -> version, of the peers that are installed."""
    import msgspec

    if not PYTHON.exists():
        return {}
    command = [str(PYTHON), "-c", _VERSIONS, *DISTRIBUTIONS]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return msgspec.json.decode(raw, type=dict[str, str])


def has(distribution: str) -> bool:
    """Whether a peer is installed."""
    return distribution in versions()
