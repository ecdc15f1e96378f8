"""Policies of Jobs in the live queue: how a Job fails, which of its indexes fail, and how many pods it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.live_cluster import JOBS, KUEUE, WORKLOADS, LiveCluster
from support.live_clusters import cluster, real_cluster, simulated_cluster
from support.waiting import eventually
from zonewise_scheduler.controller.workloads.conditions import is_true

if TYPE_CHECKING:
    from typing import Any

__all__ = ["cluster", "real_cluster", "simulated_cluster"]


@pytest.fixture(autouse=True)
def _one_node_and_queue(cluster: LiveCluster) -> None:
    cluster.add_nodes(1)
    cluster.add_queue(8)


def workload_of(cluster: LiveCluster, job: str) -> dict[str, Any]:
    [workload] = [obj for obj in cluster.workloads() if obj["metadata"]["ownerReferences"][0]["name"] == job]
    return workload


def test_a_job_that_its_failure_policy_ends_frees_its_quota(cluster: LiveCluster) -> None:
    on_exit = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    with cluster.controller():
        cluster.submit("job", 4, pods=2, podFailurePolicy={"rules": [on_exit]}, backoffLimit=6)
        eventually(lambda: len(cluster.running_pods("job")) == 2)
        cluster.submit("next", 8)
        cluster.fail_pod(cluster.running_pods("job")[0], 42)
        eventually(lambda: is_true(cluster.job("job"), "Failed"))
        eventually(lambda: is_true(workload_of(cluster, "job"), "Finished"))
        eventually(lambda: len(cluster.running_pods("next")) == 1)
        finished = [
            entry for entry in workload_of(cluster, "job")["status"]["conditions"] if entry["type"] == "Finished"
        ]
        assert "exit code 42 matching FailJob rule" in finished[0]["message"]


def test_a_permanently_failed_index_releases_its_quota(cluster: LiveCluster) -> None:
    with cluster.controller():
        cluster.submit("job", 4, pods=2, backoffLimitPerIndex=0, backoffLimit=6)
        eventually(lambda: len(cluster.running_pods("job")) == 2)
        cluster.submit("next", 4)
        cluster.fail_pod(cluster.running_pods("job")[0], 1)
        eventually(lambda: len(cluster.running_pods("next")) == 1)
        assert len(cluster.running_pods("job")) == 1
        assert workload_of(cluster, "job")["status"]["reclaimablePods"] == [{"name": "main", "count": 1}]


def test_an_elastic_job_shrinks_while_it_runs_and_grows_with_new_quota(cluster: LiveCluster) -> None:
    def resize(pods: int) -> None:
        cluster.api.patch(f"{JOBS}/job", {"spec": {"parallelism": pods, "completions": pods}}).ok()

    with cluster.controller():
        cluster.submit("job", 2, pods=4)
        eventually(lambda: len(cluster.running_pods("job")) == 4)
        cluster.submit("next", 4)
        uid = workload_of(cluster, "job")["metadata"]["uid"]
        resize(2)
        eventually(lambda: len(cluster.running_pods("next")) == 1)
        eventually(lambda: len(cluster.running_pods("job")) == 2)
        assert workload_of(cluster, "job")["metadata"]["uid"] == uid
        resize(3)
        eventually(lambda: cluster.is_held("job") and not cluster.pods("job"))
        cluster.api.delete(f"{JOBS}/next", propagationPolicy="Background").ok()
        eventually(lambda: len(cluster.running_pods("job")) == 3)


def test_a_job_with_slices_grows_while_it_runs(cluster: LiveCluster) -> None:
    """Its new pods wait behind a gate, and a controller that is killed meanwhile continues."""

    def resize(pods: int) -> None:
        cluster.api.patch(f"{JOBS}/job", {"spec": {"parallelism": pods, "completions": pods}}).ok()

    cluster.submit("job", 1, pods=3)
    elastic = {"metadata": {"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}}
    cluster.api.patch(f"{JOBS}/job", elastic).ok()
    with cluster.controller() as controller:
        eventually(lambda: len(cluster.running_pods("job")) == 3)
        first = {pod["metadata"]["uid"] for pod in cluster.running_pods("job")}
        cluster.submit("next", 4)
        eventually(lambda: len(cluster.running_pods("next")) == 1)
        resize(6)
        eventually(lambda: len(cluster.workloads()) == 3 and len(cluster.pods("job")) == 6)
        controller.kill()
    with cluster.controller():
        resize(7)
        eventually(lambda: any(entry["spec"]["podSets"][0]["count"] == 7 for entry in cluster.workloads()))
        assert {pod["metadata"]["uid"] for pod in cluster.running_pods("job")} == first
        cluster.api.delete(f"{JOBS}/next", propagationPolicy="Background").ok()
        eventually(lambda: len(cluster.running_pods("job")) == 7)
        resize(2)
        eventually(lambda: len(cluster.running_pods("job")) == 2 and shown_sizes(cluster) == [2])
    assert {pod["metadata"]["uid"] for pod in cluster.running_pods("job")} < first


def shown_sizes(cluster: LiveCluster) -> list[int]:
    """Return the sizes of the Workloads that are not Finished."""
    unfinished = [entry for entry in cluster.workloads() if not is_true(entry, "Finished")]
    return [entry["spec"]["podSets"][0]["count"] for entry in unfinished]


def test_a_job_that_names_its_workload_runs_with_it_and_counts_once(cluster: LiveCluster) -> None:
    """Its pod set has the defaults of the API server, which the job has, too."""
    cluster.submit("draft", 8)
    template = cluster.job("draft")["spec"]["template"]
    cluster.api.delete(f"{JOBS}/draft", propagationPolicy="Background").ok()
    pod_set = {"name": "main", "count": 1, "template": {"spec": template["spec"]}}
    cluster.create(WORKLOADS.removeprefix(f"{KUEUE}/"), "Workload", "ready-made",
                   {"queueName": "queue", "podSets": [pod_set]})  # fmt: skip
    with cluster.controller():
        eventually(lambda: is_true(cluster.workloads()[0], "Admitted"))
        cluster.submit("job", 8)
        named = {"metadata": {"annotations": {"kueue.x-k8s.io/prebuilt-workload-name": "ready-made"}}}
        cluster.api.patch(f"{JOBS}/job", named).ok()
        eventually(lambda: len(cluster.running_pods("job")) == 1)
        eventually(lambda: len(cluster.workloads()) == 1)
        assert workload_of(cluster, "job")["metadata"]["name"] == "ready-made"
