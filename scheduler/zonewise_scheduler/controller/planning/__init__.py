"""The planner, fed from observed objects, and its decisions that no object shows yet."""
