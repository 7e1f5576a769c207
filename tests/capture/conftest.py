"""The zone of TPU VMs that tests of `xlahouse tpu` share."""

from __future__ import annotations

import pytest

from tests.capture.zone import make_zone


@pytest.fixture
def zone(tmp_path, monkeypatch):
    """A zone whose chips are granted at once, and whose TPU VMs have one host."""
    return make_zone(tmp_path, monkeypatch)
