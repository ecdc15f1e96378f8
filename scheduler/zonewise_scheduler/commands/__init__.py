"""Subcommands of `zonewise` that the scheduler brings."""
