"""Benchmarks with targets for speed and memory. Peers are measured in the same run, and the results are ratios."""
