"""Writes TPU-like traces from the description of a run, with the answers to every metric.

`Run` describes a run; `write_run` writes its traces; `answers` works the metrics out from the
description alone, by sums and products, and never looks at what was written.
"""
