"""`make demo-agent`: the agent at work, without a cluster and without special hardware."""
