"""CPUs and the objects that contain or serve them: packages, dies, clusters, cores, caches."""
