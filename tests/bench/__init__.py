"""Benchmarks: each times one job beside the programs that people would use instead, in one run."""
