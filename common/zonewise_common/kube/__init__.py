"""A thin client of the Kubernetes API: configuration, transport, reflector, apply, lease; and an embedded server."""
