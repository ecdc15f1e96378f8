"""Nodes, their free resources and devices, as the commands show them."""
