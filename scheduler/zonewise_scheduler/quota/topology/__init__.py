"""What a Workload requests of a Topology, and the assignment that its status records."""
