"""Output of a simulation: a table, a JSON document, and progress."""
