"""Patches of each kind, and the fields that each manager owns."""
