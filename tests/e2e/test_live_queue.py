"""The live queue from the users' point of view: Jobs wait, start as a whole, are preempted, resume and end."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from support.live_cluster import JOBS, KUEUE, PODS, WORKLOADS, LiveCluster
from support.live_clusters import cluster, real_cluster, simulated_cluster
from support.waiting import eventually
from zonewise_scheduler.controller.workloads.conditions import find_condition, is_true

if TYPE_CHECKING:
    from collections.abc import Generator

    from support.live_cluster import ControllerProcess

__all__ = ["cluster", "real_cluster", "simulated_cluster"]

ELECTION = ("--leader-election", "true", "--namespace", "default")
PREEMPTING = {"withinClusterQueue": "LowerPriority"}


def test_jobs_start_by_quota_and_end(cluster: LiveCluster) -> None:
    cluster.add_nodes(2)
    cluster.add_queue(8)
    with cluster.controller():
        for i in range(3):
            cluster.submit(f"j{i}", 2, pods=2, run=0.5)
        eventually(lambda: all(cluster.is_complete(f"j{i}") for i in range(3)))
        eventually(lambda: all(is_true(obj, "Finished") for obj in cluster.workloads()))


def test_a_preempted_job_resumes(cluster: LiveCluster) -> None:
    cluster.add_nodes(1)
    cluster.add_queue(8, preemption=PREEMPTING)
    for name, value in (("low", 1), ("high", 9)):
        cluster.create("workloadpriorityclasses", "WorkloadPriorityClass", name, {}, value=value)
    with cluster.controller():
        cluster.submit("low", 6, priority="low")
        eventually(lambda: len(cluster.running_pods("low")) == 1)
        template = cluster.job("low")["spec"]["template"]["spec"]
        cluster.submit("high", 6, run=1.0, priority="high")
        eventually(lambda: len(cluster.running_pods("high")) == 1)
        assert cluster.is_held("low")
        eventually(lambda: cluster.is_complete("high"))
        eventually(lambda: len(cluster.running_pods("low")) == 1)
        assert cluster.job("low")["spec"]["template"]["spec"] == template


def test_a_queue_enforces_walltimes_while_its_jobs_run(cluster: LiveCluster) -> None:
    """A drained Job has no deadline, as when it was submitted."""
    cluster.add_nodes(1)
    cluster.add_queue(8)
    enforced = {"zonewise.dev/enforce-walltime": "true", "zonewise.dev/default-run-seconds": "10m"}
    path = f"{KUEUE}/clusterqueues/queue"
    cluster.api.patch(path, {"metadata": {"annotations": enforced}}).ok()
    with cluster.controller():
        cluster.submit("j", 6)
        eventually(lambda: len(cluster.running_pods("j")) == 1)
        assert cluster.job("j")["spec"]["activeDeadlineSeconds"] == 600
        cluster.api.patch(path, {"spec": {"stopPolicy": "HoldAndDrain"}}).ok()
        eventually(lambda: not any(is_true(obj, "QuotaReserved") for obj in cluster.workloads()))
        job = cluster.job("j")
        assert job["spec"]["suspend"]
        assert "activeDeadlineSeconds" not in job["spec"]
        assert not [name for name in job["metadata"].get("annotations", {}) if name.startswith("zonewise.dev/")]


def test_a_job_whose_workload_is_deleted_starts_again(cluster: LiveCluster) -> None:
    cluster.add_nodes(1)
    cluster.add_queue(8)
    with cluster.controller():
        cluster.submit("j", 6)
        eventually(lambda: len(cluster.running_pods("j")) == 1)
        (lost,) = cluster.workloads()
        cluster.api.delete(f"{WORKLOADS}/{lost['metadata']['name']}").ok()
        eventually(
            lambda: [obj["metadata"]["uid"] for obj in cluster.workloads()] not in ([], [lost["metadata"]["uid"]])
        )
        (workload,) = cluster.workloads()
        template = workload["spec"]["podSets"][0]["template"]
        assert "kueue.x-k8s.io/podset" not in template["metadata"].get("labels", {})
        eventually(lambda: len(cluster.running_pods("j")) == 1 and not cluster.is_held("j"))


def test_the_next_controller_holds_the_quota_of_a_deleted_job_until_its_pods_have_ended(cluster: LiveCluster) -> None:
    cluster.add_nodes(2)
    cluster.add_queue(8)
    with cluster.controller():
        cluster.submit("deleted", 6, stop=3600)
        eventually(lambda: len(cluster.running_pods("deleted")) == 1)
    (pod,) = cluster.pods("deleted")
    path = f"{PODS}/{pod['metadata']['name']}"
    cluster.api.delete(f"{JOBS}/deleted", propagationPolicy="Background").ok()
    eventually(lambda: not cluster.workloads() and "deletionTimestamp" in cluster.api.get(path).ok()["metadata"])
    cluster.submit("next", 6)
    with cluster.controller():
        eventually(lambda: [(find_condition(obj, "QuotaReserved") or {}).get("status") for obj in cluster.workloads()]
                   == ["False"])  # fmt: skip
        assert cluster.is_held("next")
        cluster.api.delete(path, gracePeriodSeconds=0).ok()
        eventually(lambda: len(cluster.running_pods("next")) == 1)


def test_gangs_start_as_a_whole_on_their_assigned_nodes(cluster: LiveCluster) -> None:
    """Two gangs of 40 pods share 64 CPUs. The second has no running pod before the first has ended."""
    cluster.add_nodes(8)
    cluster.add_queue(1000, topology=True)
    with cluster.controller():
        for name in ("first", "second"):
            cluster.submit(name, pods=40, run=3, topology="kubernetes.io/hostname")
        seen: set[tuple[int, int]] = set()

        def both_complete() -> bool:
            seen.add((len(cluster.running_pods("first")), len(cluster.running_pods("second"))))
            return cluster.is_complete("first") and cluster.is_complete("second")

        eventually(both_complete)
        assert all(0 in counts for counts in seen)
        for obj in cluster.workloads():
            (pod_set,) = obj["status"]["admission"]["podSetAssignments"]
            assert pod_set["topologyAssignment"]["levels"] == ["kubernetes.io/hostname"]


def test_a_group_of_pods_starts_as_a_whole_and_ends(cluster: LiveCluster) -> None:
    cluster.add_nodes(2)
    cluster.add_queue(8)
    with cluster.controller():
        cluster.submit("first", 8, run=2)
        eventually(lambda: len(cluster.running_pods("first")) == 1)
        cluster.add_group("group", 3, run=1)
        eventually(lambda: len(cluster.workloads()) == 2)
        assert set(cluster.group_phases("group")) == {"Pending"}
        eventually(lambda: cluster.group_phases("group") == ["Succeeded"] * 3)
        eventually(lambda: all(is_true(obj, "Finished") for obj in cluster.workloads()))


@contextlib.contextmanager
def leader_with_a_job(cluster: LiveCluster) -> Generator[ControllerProcess]:
    """Run a controller as the leader, with half of the quota used by the Job `before`."""
    cluster.add_nodes(1)
    cluster.add_queue(8)
    with cluster.controller(*ELECTION) as leader:
        cluster.submit("before", 4)
        eventually(lambda: len(cluster.running_pods("before")) == 1)
        yield leader


def test_a_killed_controller_is_replaced_by_the_other_replica(cluster: LiveCluster) -> None:
    with leader_with_a_job(cluster) as first, cluster.controller(*ELECTION):
        first.kill()
        cluster.submit("after", 4)
        eventually(lambda: len(cluster.running_pods("after")) == 1)
        assert len(cluster.running_pods("before")) == 1


def test_a_stopped_controller_releases_the_lease_to_the_other_replica(cluster: LiveCluster) -> None:
    """The other replica need not wait until the lease expires."""
    with leader_with_a_job(cluster) as first:
        assert cluster.lease_holder()
        cluster.submit("during", 2)
        assert first.terminate() == 0
        assert not cluster.lease_holder()
        with cluster.controller(*ELECTION):
            cluster.submit("after", 2)
            for name in ("during", "after", "before"):
                eventually(lambda name=name: len(cluster.running_pods(name)) == 1)
