"""The objects that the extender watches, reduced to the fields that it needs."""
