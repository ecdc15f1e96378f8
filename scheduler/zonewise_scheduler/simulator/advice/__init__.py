"""Advice: the smallest value of a setting at which a simulation meets a goal."""
