"""The hardware of a node: discovery from the files of a machine to one immutable value, `Machine`."""
