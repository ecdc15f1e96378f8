"""The snapshot of a flavor: the capacity of its leaves, and how many pods each domain of its tree can hold."""
