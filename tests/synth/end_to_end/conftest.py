"""All synthetic runs in one warehouse, so that a view which mixes runs is caught too."""

from __future__ import annotations

import pytest

from tests.synth.end_to_end.ingested import chosen, ingest


@pytest.fixture(scope="session")
def everything(tmp_path_factory):
    """Name -> run, ingested once for all tests; they share the xdist group `synthetic`."""
    return ingest(chosen().values(), tmp_path_factory.mktemp("synthetic"))
