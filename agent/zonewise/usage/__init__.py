"""What pods use of a machine, and what is available, zone by zone."""
