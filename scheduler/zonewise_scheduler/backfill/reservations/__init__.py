"""Reservations: starts held for pending workloads, and the timeline and quota profile that they come from."""
