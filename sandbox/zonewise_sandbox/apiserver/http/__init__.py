"""Requests, responses, watches and proxied connections as bytes."""
