"""NodeResourceTopology: names, notations and fingerprints that the agent writes and the scheduler reads."""
