"""NUMA zones and their memory, memory that appears as a device, and memory modules."""
