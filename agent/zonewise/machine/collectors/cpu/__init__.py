"""CPUs, and what holds and serves them: packages, dies, clusters, cores, caches; who told it, and how it is read."""
