"""Replays recordings of the live queue: feeds the same entries to another planner and compares the decisions."""
