"""Gangs: placements of pods that must start together."""
