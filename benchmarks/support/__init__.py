"""What several benchmarks share: clusters, peers, floors, ideal schedules, and the table of results."""
