"""What Prometheus reads: what the agent does (meters), and what the node is (inventory)."""
