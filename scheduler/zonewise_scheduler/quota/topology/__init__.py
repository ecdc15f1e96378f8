"""Topology requests and topology assignments of Workloads, as values and as the API encodes them."""
