"""Runs many simulations at once, over seeds, policies and loads, and computes the means of their results."""
