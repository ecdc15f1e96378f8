"""CPUs and the objects that hold and serve them: packages, dies, clusters, cores, caches."""
