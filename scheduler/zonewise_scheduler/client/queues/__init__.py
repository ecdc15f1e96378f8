"""Queues and their jobs, as `zonewise queue` lists them."""
