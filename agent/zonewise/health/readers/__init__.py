"""Readers of the data by which health is judged: one file per source, below a root that is a parameter."""
