"""The queue: which job starts, when and where, decided over values alone."""
