"""SQL over a warehouse: `from xlahouse.sql import Warehouse`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlahouse.sql.result import Result
    from xlahouse.sql.warehouse import Warehouse

__all__ = ["Result", "Warehouse"]


def __getattr__(name: str) -> type[Warehouse] | type[Result]:
    """Load the two classes when they are asked for: the command line has to start quickly."""
    if name == "Warehouse":
        from xlahouse.sql.warehouse import Warehouse

        return Warehouse
    if name == "Result":
        from xlahouse.sql.result import Result

        return Result
    raise AttributeError(f"module {__name__} has no attribute {name}")


def __dir__() -> list[str]:
    """The API, although its classes load when they are asked for."""
    return [*__all__]
