"""Packages that take seconds to import: a test file names them, and the first use imports them."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pytest


class Later:
    """A module, imported when it is first asked for an attribute."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # pytest asks every global for __test__
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)


def needs(*names: str) -> pytest.MarkDecorator:
    """A mark that skips its tests where one of the packages is not installed."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    reason = f"needs {', '.join(missing)}: install xlahouse[capture]"
    return pytest.mark.skipif(bool(missing), reason=reason)
