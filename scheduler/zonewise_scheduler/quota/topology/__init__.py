"""Topology requests and topology assignments of Workloads, as values and in the API's encoding."""
