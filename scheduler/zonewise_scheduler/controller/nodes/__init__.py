"""The nodes of the planner, from Nodes, NodeResourceTopologies and pods outside the queue."""
