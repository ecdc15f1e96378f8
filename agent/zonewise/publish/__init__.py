"""Writes the agent's objects to the API server, and only when they have changed."""
