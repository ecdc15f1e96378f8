"""`make demo-agent`: runs the agent without a cluster and without special hardware."""
