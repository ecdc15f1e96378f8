"""Decisions about all nodes at once: arrays, filters, scores, gangs and assumed pods."""
