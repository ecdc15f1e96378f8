"""Recordings of what the planner was told and decided, so that a run can be replayed and compared."""
