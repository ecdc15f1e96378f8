"""GPUs: found by PCI, enriched by what the driver of each vendor tells."""
