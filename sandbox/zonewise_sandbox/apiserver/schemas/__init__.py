"""Definitions of custom resources, their schemas, and the checks of a body."""
