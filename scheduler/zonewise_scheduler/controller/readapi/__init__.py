"""The read API: queues, workloads and the plan as JSON, for people and programs that only read."""
