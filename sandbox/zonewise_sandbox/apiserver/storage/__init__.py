"""Objects in memory, their lists and selectors, and the dependents of each."""
