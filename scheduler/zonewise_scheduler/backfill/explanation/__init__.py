"""Explanations: why a workload waits, as a value and as a sentence."""
