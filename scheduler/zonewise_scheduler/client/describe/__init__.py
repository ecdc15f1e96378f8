"""Descriptions of a job, pod, node, setup or forecast, line by line, for `zonewise explain` and others."""
