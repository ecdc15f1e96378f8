"""Joint placement of many pods on few nodes: bin packing, zone by zone."""
