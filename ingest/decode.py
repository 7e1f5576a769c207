"""Decodes serialized messages into Arrow, and makes an error of whatever damage does to the decoder."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from xlahouse.ingest.proto import arrow_decoder


class DecodeError(ValueError):
    """The bytes are no such message."""


def decode(message: str, payloads: list[bytes]) -> Any:
    """Serialized messages of one kind -> Arrow record batch, one row each.

    Args:
        message: a key of proto.MESSAGES.
        payloads: the messages.

    Raises:
        DecodeError: one of them is damaged.
    """
    try:
        with _STDERR.quiet():
            return arrow_decoder(message).list_to_record_batch(payloads)
    except BaseException as error:
        # The decoder panics on some damage; a panic is no Exception, so that it is not swallowed
        # by accident. Here it means the same as an error.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise DecodeError(str(error)) from None


@dataclass
class _Stderr:
    """Keeps what native code prints on its way to a panic from the user's terminal.

    The file descriptor is the process's: the first thread that comes turns it aside, the last one that
    leaves turns it back.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    inside: int = 0
    kept: int = -1

    @contextmanager
    def quiet(self) -> Iterator[None]:
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def _enter(self) -> None:
        with self.lock:
            self.inside += 1
            if self.inside > 1:
                return
            sys.stderr.flush()
            self.kept = os.dup(2)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)

    def _leave(self) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                os.dup2(self.kept, 2)
                os.close(self.kept)


_STDERR = _Stderr()
