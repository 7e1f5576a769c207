"""Lets the leases of a warehouse on this machine run out, as if their time had passed."""

from __future__ import annotations

import os
from pathlib import Path

from xlahouse.ingest.store.leases import LEASE_S


def run_out(root: Path | str) -> None:
    """All leases, and files that were not renamed into place, become older than a lease lasts."""
    for path in [*Path(root).glob("leases/*"), *Path(root).rglob("*.tmp")]:
        now = path.stat().st_mtime
        os.utime(path, (now, now - LEASE_S - 1))
