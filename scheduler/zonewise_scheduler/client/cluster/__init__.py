"""Connections to the API server and to the read API of the controller, with their tokens and outages."""
