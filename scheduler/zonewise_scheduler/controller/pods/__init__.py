"""Pods of started jobs: ungated to their nodes; groups of plain pods as jobs."""
