"""Adapters: how each kind of job is held, started, stopped, and seen to end. One module per kind."""
