"""A NodeResourceTopology object, and the other sources of a node's state, read into admission's values."""
