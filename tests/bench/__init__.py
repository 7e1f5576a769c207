"""Benchmarks: each measures one thing beside what people would use instead, in one run."""
