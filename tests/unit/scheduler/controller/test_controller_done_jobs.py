"""Jobs whose pods have all succeeded: their quota and nodes are free before their status shows it.

The Job controller handles the ends of pods in batches, a second after the first; here it acts only on request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.live_queue import LiveQueue
from support.placed_cluster import NODE_CPUS, PlacedCluster
from zonewise_scheduler.quota.api.job_pod_sets import CONTROLLER_UID

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import ObjectKey

NOW = 1_800_000_000.0


class DoneJobs:
    """Two nodes of 4 CPUs; a gang of 4 pods uses all of them while another gang waits."""

    def __init__(self) -> None:
        self.cluster = PlacedCluster()
        self.restart()
        self.first = self._submit("first", 0)
        self.second = self._submit("second", 1)
        for pod in self.cluster.pods(self.first):
            self.set_phase(pod, "Running")
        self.settle()

    def _submit(self, name: str, at: int) -> ObjectKey:
        job = self.cluster.submit(name, NODE_CPUS // 2, pods=4, at=at)
        self.cluster.change(job, {"spec": {"completionMode": "Indexed"}})
        self.settle()
        return job

    def restart(self) -> None:
        """Replace the controller."""
        self.queue = LiveQueue(self.cluster.listed, self.cluster.send, now=lambda: NOW, nodes=self.cluster.node_feed())

    def settle(self) -> None:
        """Let all controllers act until nothing changes."""
        self.queue.settle(self.cluster.sync_jobs)

    def set_phase(self, pod: ObjectKey, phase: str) -> None:
        """Set the phase of a pod, as the kubelet does."""
        self.cluster.change(pod, {"status": {"phase": phase}})

    def end_pods(self, phase: str = "Succeeded") -> None:
        """End the pods of the first gang one by one; the last one gets the given phase."""
        pods = self.cluster.pods(self.first)
        for pod in pods:
            assert not self.runs(self.second)
            self.set_phase(pod, phase if pod == pods[-1] else "Succeeded")
            self.settle()

    def runs(self, job: ObjectKey) -> bool:
        """Return whether a Job is not suspended."""
        return not self.cluster.get(job)["spec"]["suspend"]


def test_a_gang_starts_once_the_last_pod_of_another_has_succeeded() -> None:
    jobs = DoneJobs()
    assert (jobs.runs(jobs.first), jobs.runs(jobs.second)) == (True, False)
    jobs.end_pods()
    assert jobs.runs(jobs.second)
    assert sorted(jobs.cluster.nodes_of(jobs.second)) == ["n0", "n0", "n1", "n1"], "and its pods are bound"
    assert jobs.runs(jobs.first), "its Job is left alone"
    jobs.cluster.complete(jobs.first)
    jobs.settle()
    assert (jobs.cluster.starts["first"], jobs.cluster.starts["second"]) == (1, 1)


def test_a_job_with_a_failed_pod_keeps_its_quota_since_the_pod_may_be_retried() -> None:
    jobs = DoneJobs()
    jobs.end_pods("Failed")
    assert not jobs.runs(jobs.second)


def test_another_leader_makes_the_same_decision() -> None:
    jobs = DoneJobs()
    jobs.end_pods()
    jobs.restart()
    jobs.settle()
    assert jobs.runs(jobs.second)
    assert len(jobs.queue.controller.feed.state.running) == 1


def test_pods_of_an_earlier_job_do_not_count() -> None:
    jobs = DoneJobs()
    for pod in jobs.cluster.pods(jobs.first):
        jobs.cluster.change(pod, {"metadata": {"labels": {CONTROLLER_UID: "earlier"}}})
    jobs.end_pods()
    assert not jobs.runs(jobs.second)


@pytest.mark.parametrize("complete", [False, True])
def test_pods_are_deleted_before_the_status_counts_them(complete: bool) -> None:
    """The quota counts again until the status includes these pods or the Job has ended. Nothing is stopped."""
    jobs = DoneJobs()
    jobs.end_pods()
    pods = jobs.cluster.pods(jobs.first)
    for pod in pods:
        jobs.cluster.delete(pod)
    if complete:
        jobs.cluster.complete(jobs.first)
    jobs.queue.settle()
    assert jobs.runs(jobs.first)
    assert jobs.runs(jobs.second)
    assert (jobs.cluster.starts["first"], jobs.cluster.starts["second"]) == (1, 1)
