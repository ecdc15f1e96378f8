"""PCI functions, their locations, their distances from each other, and the devices that they provide."""
