"""The registry of all codes in the table `issues`: what `xlahouse check --codes` prints."""

from __future__ import annotations

from xlahouse.ingest.events import (
    codes_of_devices,
    codes_of_files,
    codes_of_names,
    codes_of_programs,
)
from xlahouse.ingest.events.issues import Code

_FOUND = [
    value
    for module in (codes_of_devices, codes_of_files, codes_of_names, codes_of_programs)
    for value in vars(module).values()
    if isinstance(value, Code)
]
CODES = {code.code: code for code in sorted(_FOUND, key=lambda code: code.code)}
