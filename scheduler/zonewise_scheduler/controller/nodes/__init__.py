"""The nodes of the planner, built from Nodes, NodeResourceTopologies and pods outside the queue."""
