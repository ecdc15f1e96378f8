"""Conversion of a NodeResourceTopology object, and other sources of a node's state, into values of `admission`."""
