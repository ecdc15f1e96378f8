"""GPUs: found by PCI, with further facts from the driver of each vendor."""
