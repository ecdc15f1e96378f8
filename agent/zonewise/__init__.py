"""zonewise on a node: discovers the machine, and publishes the capacity and the available resources of each zone."""
