"""Listings of `zonewise report`."""
