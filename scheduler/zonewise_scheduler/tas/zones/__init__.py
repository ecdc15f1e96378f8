"""NUMA zones as the lowest level of a Topology: the kubelet of each node must admit each pod."""
