"""A real kubelet on hardware made of files, with a container runtime and device plugins of our own."""
