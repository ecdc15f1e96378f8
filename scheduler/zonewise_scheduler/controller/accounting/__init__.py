"""Records of ended runs: which changes of a Workload end a run, and the log and files that keep the records."""
