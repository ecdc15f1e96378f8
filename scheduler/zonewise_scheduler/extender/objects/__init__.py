"""The objects that the extender watches: the fields that it needs of each."""
