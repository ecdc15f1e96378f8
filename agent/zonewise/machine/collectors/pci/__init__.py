"""PCI functions, where they are, how close to each other, and the devices that hang off them."""
