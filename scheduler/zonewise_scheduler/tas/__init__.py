"""The join of quotas and topologies: where the pods of a cycle's workloads go."""
