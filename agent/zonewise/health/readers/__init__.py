"""Reads what health is judged by: one file per source, below a root that is a parameter."""
