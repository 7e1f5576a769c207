"""Removes a run from a warehouse: its row at once, its files once no reader can have them open."""

from __future__ import annotations

import uuid

from xlahouse.ingest.schema import BY_NAME
from xlahouse.ingest.store.leases import FOLDER
from xlahouse.ingest.store.packs import unpack
from xlahouse.ingest.store.run_index import dropped_path, row_path
from xlahouse.ingest.store.settings import settings_path
from xlahouse.ingest.store.store import Store


def drop_run(store: Store, run_id: str, at_once: bool = False) -> int:
    """Remove a run, its settings with it; the number of files that go.

    Its files stay for readers who opened the warehouse before, and go with the next ingest, compact
    or drop once their lease has expired. A run with a damaged row can be removed too.

    Args:
        store: the warehouse.
        run_id: the run's id, whole.
        at_once: remove the files now; a query that is reading them fails.

    Raises:
        WarehouseError: a newer xlahouse wrote the warehouse.
    """
    store.check_layout()
    paths = _files_of(store, run_id)
    goes = paths | {row_path(run_id), dropped_path(run_id)}
    # The lease comes first: if killed in between, the run is still there, and the lease is harmless.
    token = uuid.uuid4().hex
    store.lease(token, run_id, sorted(goes))
    store.drop_row(run_id)
    store.remove({settings_path("", run_id).lstrip("/")})
    if at_once:
        unpack(store)  # which may hold its rows
        store.remove(goes)
        store.remove({f"{FOLDER}/{token}.json"})
    return len(paths)


def _files_of(store: Store, run_id: str) -> set[str]:
    """Every file in the run's folders, except files that an ingest of the run is writing now."""
    writing = {
        path
        for token, lease in store.leases().items()
        if lease.run_id == run_id and not lease.paths
        for path in store.files_of_attempt(run_id, token)
    }
    found = {
        path
        for table in BY_NAME
        if table != "runs"
        for path in store.files_in(f"tables/{table}/run_id={run_id}")
    }
    return found - writing
