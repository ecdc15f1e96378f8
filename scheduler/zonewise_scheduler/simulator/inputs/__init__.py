"""Readers of every kind of trace."""
