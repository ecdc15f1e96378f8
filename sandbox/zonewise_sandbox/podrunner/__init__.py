"""Stands in for kube-scheduler and the kubelets of thousands of nodes: binds pods, starts them, ends them.

    with ApiServer() as server, PodRunner(server.client_config()):
        ...

A pod runs for the seconds of its annotation `zonewise.dev/simulated-run-seconds`, without one until it is deleted, and
then has the exit code of `zonewise.dev/simulated-exit-code`. With `zonewise.dev/simulated-gang-pods: "10"` its time
counts from when so many pods of its Job run. The runner works through HTTP alone, and hence on a real API server as
well. Left out: preemption, priorities, spreading, pod affinity, volumes, restarts of containers, probes, eviction from
lost nodes. Pods are packed in the order in which they come.
"""

from zonewise_sandbox.podrunner.runner import PodRunner, RunnerSettings

__all__ = ["PodRunner", "RunnerSettings"]
