"""zonewise on a node: discovers the machine, and publishes what each zone has and what is available."""
