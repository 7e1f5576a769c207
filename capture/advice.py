"""Advice for a failed capture, by the messages of XLA, libtpu and the system."""

from __future__ import annotations

import re

# (pattern, advice): the first that matches the reason, else the end of the log.
_KNOWN = (
    (
        r"RESOURCE_EXHAUSTED|[Oo]ut of memory|exceeded hbm capacity|Attempting to (?:allocate|reserve)",
        "out of memory on the device: lower batch_size or prompt_tokens, or shard over more devices "
        "(tp, fsdp, pp)",
    ),
    (
        r"ended by SIGKILL|MemoryError|bad_alloc|Cannot allocate memory",
        "probably out of memory on the host: lower the model's sizes, or use a machine with more memory",
    ),
    (
        r"No space left on device",
        "the disk is full: free some space, or choose another folder with --traces",
    ),
    (
        r"Address already in use|found no free port",
        "a port is in use: end the other profiler, or try again",
    ),
    (
        r"TPU is already in use|accel\d+.*busy|libtpu.*lockfile|Device or resource busy|vfio.*busy",
        "another process uses the TPU: end it (`sudo lsof /dev/accel* /dev/vfio/*` names it)",
    ),
    (
        r"UNAVAILABLE|DEADLINE_EXCEEDED|heartbeat|coordination service|[Ss]lice health|Socket closed",
        "a host of the slice does not answer: run the same command on all hosts, "
        "or create the TPU VM again",
    ),
    (
        r"SIGILL|SIGSEGV|SIGBUS|SIGABRT",
        "torch_xla itself failed: install the same release of torch and torch_xla",
    ),
)
_LAST = 4000  # characters at the end of a log that can state why a process ended


def advice_on(reason: str, log: str) -> str:
    """`; try …` for a known reason of a failed capture, else an empty string."""
    for text in (reason, log[-_LAST:]):
        for pattern, advice in _KNOWN:
            if re.search(pattern, text):
                return f"; {advice}"
    return ""
