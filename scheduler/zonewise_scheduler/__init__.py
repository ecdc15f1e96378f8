"""zonewise for the cluster: decides which job starts, when, and on which nodes."""
