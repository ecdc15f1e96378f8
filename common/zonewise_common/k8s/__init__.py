"""Values of the Kubernetes API: CPU sets, quantities, selectors, taints, fields."""
