"""Carries out writes: conditional, within a rate, repeated where the outcome is unknown, counted."""
