"""A real kubelet on hardware made of files, with the project's own container runtime and device plugins."""
