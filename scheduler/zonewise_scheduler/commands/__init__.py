"""Subcommands of `zonewise` for the cluster."""
