"""How much of a machine pods use, and how much is available, zone by zone."""
