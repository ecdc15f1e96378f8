"""Many simulations at once, over seeds, policies and loads, and the means of their results."""
