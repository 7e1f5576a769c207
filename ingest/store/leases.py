"""Leases: who uses files that no run's row lists.

A lease counts from the moment at which the storage says that its file was written, and has run out when
the storage's clock is LEASE_S later: clocks of machines do not matter. Who renews a lease too late gives
up, so that files are never removed while a run of them is committed.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from xlahouse.ingest.events.files import is_local, stored_at, write_whole

if TYPE_CHECKING:
    import fsspec

FOLDER = "leases"
LEASE_S = 3600
# Before it runs out, a lease is not renewed any more: renewing takes time too.
LAST_S = 600
# Where files are renamed into place, a killed process leaves what it had not renamed.
_RENAMED_IN = ("", FOLDER, "tables/runs", "index", "settings")


class Lease(msgspec.Struct, frozen=True):
    """Who uses files, and of which run."""

    who: str  # machine and process, `host:pid`
    until: float  # by the clock of `who`, UNIX seconds: for people, and for earlier versions
    run_id: str  # the run that the files are, or were, part of
    paths: list[str]  # other files in use, relative to the warehouse


def write_lease(
    system: fsspec.AbstractFileSystem, base: str, token: str, run_id: str, paths: list[str]
) -> float | None:
    """Write or renew a lease; when, by the storage's clock, None where that does not say.

    Args:
        system: the warehouse's file system.
        base: its folder.
        token: name of the lease; files of the run whose names begin with it are in use.
        run_id: the run that they are, or were, part of.
        paths: other files in use, relative to the warehouse.
    """
    path = _path(base, token)
    lease = Lease(f"{socket.gethostname()}:{os.getpid()}", time.time() + LEASE_S, run_id, paths)
    write_whole(system, path, msgspec.json.encode(lease))
    return stored_at(system, path)


def is_safe(renewed: float | None, before: float | None) -> bool:
    """Whether a lease was renewed in time. renewed, before: when it was written, as write_lease gives it."""
    return renewed is None or before is None or renewed - before < LEASE_S - LAST_S


def now_of(system: fsspec.AbstractFileSystem, base: str) -> float | None:
    """The storage's time: that of a lease of nothing, written for this."""
    token = uuid.uuid4().hex
    try:
        return write_lease(system, base, token, "", [])
    finally:
        with suppress(FileNotFoundError):
            system.rm_file(_path(base, token))


def half_written(system: fsspec.AbstractFileSystem, base: str) -> list[str]:
    """Files that were not yet renamed into place, of processes at work or killed; relative to the base."""
    if not is_local(system):
        return []
    found = []
    for folder in _RENAMED_IN:
        with suppress(OSError):
            names = os.listdir(f"{base}/{folder}")
            found += [f"{folder}/{name}".lstrip("/") for name in names if name.endswith(".tmp")]
    return found


def is_unused(system: fsspec.AbstractFileSystem, path: str, now: float | None) -> bool:
    """Whether a lease has run out, or a half-written file is older than any lease.

    Args:
        system: the warehouse's file system.
        path: the file, on it.
        now: as now_of gave it, before this.
    """
    try:
        written = stored_at(system, path)
    except FileNotFoundError:  # gone meanwhile
        return False
    return now is not None and written is not None and now - written >= LEASE_S


def _path(base: str, token: str) -> str:
    return f"{base}/{FOLDER}/{token}.json"
