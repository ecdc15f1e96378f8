"""What a simulation came to, for people and for programs: a table, a JSON document, and progress meanwhile."""
