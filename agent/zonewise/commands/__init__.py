"""The agent's subcommands of `zonewise`. Each module exports a COMMAND."""
