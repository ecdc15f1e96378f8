"""Flavors: which ones a workload gets, and what has to happen first."""
