"""Forecasts: when pending workloads will probably start, from sample paths of what may happen."""
