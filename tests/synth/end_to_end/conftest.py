"""Synthetic runs in one warehouse, so that a view which mixes runs is caught too."""

from __future__ import annotations

import pytest

from tests.synth.end_to_end.ingested import chosen, ingest


@pytest.fixture(scope="session", params=["few", pytest.param("all", marks=pytest.mark.verify)])
def synthetic_runs(request, tmp_path_factory):
    """Name -> run, ingested once for all tests: a few in `make test`, all in `make verify`.

    Tests of it share the xdist group `synthetic`.
    """
    runs = chosen(all_of_them=request.param == "all")
    return ingest(runs.values(), tmp_path_factory.mktemp("synthetic"))
