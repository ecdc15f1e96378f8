"""A thin client of the Kubernetes API: configuration, transport, verbs, reflector, leader election."""
