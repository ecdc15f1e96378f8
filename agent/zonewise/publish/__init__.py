"""Writing to the API server what the agent knows, and only when it changed."""
