"""From what others write to the fit's values: pods, NodeResourceTopology objects, the kubelet's own files."""
