"""Accounting: a record for each run of a workload, and the usage that records add up to."""
