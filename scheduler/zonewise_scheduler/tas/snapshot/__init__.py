"""The capacity of each domain of a Topology for one flavor, as it stands in a cycle."""
