"""A cluster in one process, for tests, benchmarks and demonstrations."""
