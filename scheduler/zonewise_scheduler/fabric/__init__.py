"""The network fabric: which switches connect the nodes, and the levels of a Topology that follow from them.

Files of a subnet manager's host or of Slurm become a `NetworkFabric`. From it and the links of the nodes follow the
domains of each level (`levels`), and from these the labels of nodes (`node_labels`).
"""
