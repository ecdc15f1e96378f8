"""The Job controller of kube-controller-manager for test clusters: it manages the pods and the status of batch/v1 Jobs.

    with ApiServer() as server, JobController(server.client_config()):
        ...

It uses only HTTP, so it also works on a real API server without kube-controller-manager. Not supported: events,
metrics, adoption of pods by label, Workload and PodGroup objects for Jobs (alpha in 1.36).
"""

from zonewise_sandbox.jobcontroller.controller import JobController

__all__ = ["JobController"]
