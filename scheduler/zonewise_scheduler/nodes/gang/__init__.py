"""Gangs: where pods go that must start together, all of them or none."""
