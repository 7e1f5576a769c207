"""How the decoding of JSON that others wrote fails: it is no JSON, no UTF-8, or nested without end."""

from __future__ import annotations

import msgspec

JSON_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
