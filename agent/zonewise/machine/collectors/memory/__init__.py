"""NUMA zones and their memory, memory as a device, memory modules."""
