"""What a node is made of: discovery from the files of a machine to one immutable value, `Machine`."""
