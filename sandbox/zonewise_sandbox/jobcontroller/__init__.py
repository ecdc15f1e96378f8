"""The Job controller of kube-controller-manager, for clusters of tests: the pods of batch/v1 Jobs, and their status.

    with ApiServer() as server, JobController(server.client_config()):
        ...

It works through HTTP alone, and hence on a real API server without kube-controller-manager as well. Left out: events,
metrics, adoption of pods by label, Workload and PodGroup objects for Jobs (alpha in 1.36).
"""

from zonewise_sandbox.jobcontroller.controller import JobController

__all__ = ["JobController"]
