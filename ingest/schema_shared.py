"""Columns that several tables have, as `columns_of` reads them."""

from __future__ import annotations

# The marker around an event; every step grain is (run_id, device_id, request, step).
STEP_COLUMNS = """
phase str prefill, decode, mixed, warmup, compile or step; NULL outside every marker
request int number of the request; warm-ups count down from -1; NULL without a marker, and in a server's step
step int forward pass: 0 is prefill, k the k-th decode; a server's or user's step; else launch instance
"""

SPAN_COLUMNS = """
start_ps int start
duration_ps int duration
"""

SCOPE_COLUMNS = """
layer int index of the model's layer, from the module path
component str attention, mlp, moe, embedding, head or norm, from the module path
"""

# The same of what a compiler decides: also of instructions that it adds.
USE_COLUMNS = """
layer int index of the model's layer, from the module path; of what the compiler adds, that of its users
component str attention, mlp, moe, embedding, head or norm, likewise; both NULL where users disagree
"""
