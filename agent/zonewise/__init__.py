"""zonewise on a node: sees the machine, and says what it is made of and what is free, zone by zone."""

__version__ = "0.1.0"
