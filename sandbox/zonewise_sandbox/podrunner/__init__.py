"""Stands in for kube-scheduler and the kubelets of thousands of nodes: it binds, starts and ends pods.

    with ApiServer() as server, PodRunner(server.client_config()):
        ...

A pod runs for the seconds in its annotation `zonewise.dev/simulated-run-seconds`, or until it is deleted. It ends with
the exit code in `zonewise.dev/simulated-exit-code`. With `zonewise.dev/simulated-gang-pods: "10"`, its run time starts
when ten pods of its Job run. The runner uses only HTTP, so it also works on a real API server. Not supported:
preemption, priorities, spreading, pod affinity, volumes, restarts of containers, probes, eviction from lost nodes. Pods
are packed in order of arrival.
"""

from zonewise_sandbox.podrunner.runner import PodRunner, RunnerSettings

__all__ = ["PodRunner", "RunnerSettings"]
