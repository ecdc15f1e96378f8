"""Benchmarks for the targets of speed and memory. Peers run in the same run, and the results are ratios."""
