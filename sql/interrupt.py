"""Lets Ctrl-C end a call into DuckDB, which misses it where it comes before the query has begun."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import duckdb

RETRY_S = 0.05
Answer = TypeVar("Answer")


def interruptible(connection: duckdb.DuckDBPyConnection, call: Callable[[], Answer]) -> Answer:
    """Give what `call` gives; on Ctrl-C end what `connection` runs for it.

    The call runs beside the main thread, because signals reach no other. DuckDB is told again until
    it has stopped: told before a query begins, it forgets.

    Raises:
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call)
        try:
            return future.result()
        except KeyboardInterrupt:
            while not future.done():
                connection.interrupt()
                wait([future], RETRY_S)
            raise
