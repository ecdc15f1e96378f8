"""Replays of recordings of the live queue: the same entries to another planner, and a comparison of the decisions."""
