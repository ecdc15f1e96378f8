"""The live queue: watched objects become events of the planner, and its plans become writes to the API server.

jobs/       one adapter per kind of job: pod sets, start, stop, end
workloads/  Workload objects: built from jobs, with a status from decisions
planning/   the planner's state, fed from objects; recordings; decisions that are not yet observed
nodes/      the nodes of the planner, from Nodes, NodeResourceTopologies and pods outside the queue
pods/       pods of started jobs, ungated to their nodes; groups of plain pods as jobs
admissionchecks/  capacity from ProvisioningRequests
reconcile/  the next write for an object, derived only from observed objects
writing/    executes writes: in order per object, rate-limited, counted
status/     statuses of queues, events and annotations of waiting jobs
webhooks/   admission webhooks and their certificate
readapi/    /api/v1: queues, workloads, plan

Data flows in one direction: informers, controller.py (caches, reconcile, pass), writes, API server, informers.
"""
