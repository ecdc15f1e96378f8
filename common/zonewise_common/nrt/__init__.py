"""NodeResourceTopology: names, notations and fingerprints, written by the agent and read by the scheduler."""
