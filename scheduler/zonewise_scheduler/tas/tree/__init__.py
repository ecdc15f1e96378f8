"""The topology tree of a flavor, and values that refer to its levels and leaves."""
