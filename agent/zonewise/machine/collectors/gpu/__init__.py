"""GPUs: found on the PCI bus, with further facts from the driver of each vendor."""
