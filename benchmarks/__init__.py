"""Benchmarks of the targets for speed and memory. Each peer runs in the same run, as a ratio."""
