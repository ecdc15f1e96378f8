"""The pods of started jobs, which are ungated to their nodes, and groups of plain pods that form jobs."""
