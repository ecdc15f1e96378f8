"""Scenarios out of files: Kueue's generators, job files, objects of a cluster, logs, mixes by name, and nodes."""
