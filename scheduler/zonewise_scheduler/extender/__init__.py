"""The live half: the cluster as the API server tells it, and what is decided on it."""
