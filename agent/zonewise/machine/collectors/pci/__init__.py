"""PCI functions, their location and distance from each other, and the devices that they carry."""
