"""Requests that the API server adds to pods, but not to the templates of their jobs, count in the live queue."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from support.live_queue import LiveQueue
from support.model_cluster import NAMESPACE
from support.placed_cluster import NODE_CPUS, PlacedCluster
from support.plain_pods import queued_pod
from zonewise_common.kube.resources import (
    LIMIT_RANGES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RUNTIME_CLASSES,
    WORKLOADS,
    Resource,
)
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.quota.api.resource_settings import parse_resource_settings

Json = dict[str, Any]

NOW = 1_800_000_000.0
KATA: Json = {"cpu": "500m"}
GVISOR: Json = {"gvisor": "true"}
RANGE = ObjectKey(LIMIT_RANGES, NAMESPACE, "r")


class AdmittingCluster(PlacedCluster):
    """A cluster whose API server has the admission plugins RuntimeClass and LimitRanger, as far as needed here."""

    def create(self, resource: Resource, namespace: str, name: str, **fields: Any) -> ObjectKey:
        """Create an object; the plugins complete pods."""
        if resource == PODS:
            fields = copy.deepcopy(fields)
            if fields["spec"].get("runtimeClassName") == "kata":
                fields["spec"]["overhead"] = KATA
            if fields["spec"].get("runtimeClassName") == "gvisor":
                fields["spec"].setdefault("nodeSelector", {}).update(GVISOR)
            for container in fields["spec"]["containers"] if RANGE in self.objects else ():
                requests = container.setdefault("resources", {}).setdefault("requests", {})
                requests.update({**self.get(RANGE)["spec"]["limits"][0]["defaultRequest"], **requests})
        return super().create(resource, namespace, name, **fields)

    def limit(self, **limits: Json) -> None:
        """Create or change the LimitRange of the namespace."""
        spec = {"limits": [{"type": "Container", "defaultRequest": {}, **limits}]}
        if RANGE in self.objects:
            self.change(RANGE, {"spec": spec})
        else:
            self.create(*RANGE, spec=spec)

    def submit_with(self, name: str, pods: int, **spec: Any) -> ObjectKey:
        """Create a held Job with additional fields in its pods."""
        job = self.submit(name, 2, pods=pods)
        self.change(job, {"spec": {"template": {"spec": spec}}})
        return job


def live_queue(cluster: AdmittingCluster, *unreadable: Resource) -> LiveQueue:
    nodes = cluster.node_feed()
    return LiveQueue(cluster.listed, cluster.send, now=lambda: NOW, nodes=nodes, unreadable=frozenset(unreadable))


def is_started(cluster: AdmittingCluster, job: ObjectKey) -> bool:
    return not cluster.get(job)["spec"]["suspend"]


def containers(requests: Json) -> list[Json]:
    return [{"name": "c", "resources": {"requests": requests}}]


def test_a_gang_starts_only_if_its_pods_fit_with_the_overhead_of_their_runtime_class() -> None:
    cluster = AdmittingCluster()
    cluster.create(RUNTIME_CLASSES, "", "kata", overhead={"podFixed": KATA})
    queue = live_queue(cluster)
    four, two = (cluster.submit_with(f"of-{pods}", pods, runtimeClassName="kata") for pods in (4, 2))
    queue.settle(cluster.sync_jobs)
    assert not is_started(cluster, four), f"two pods of 2.5 CPUs need more than the {NODE_CPUS} of a node"
    assert sorted(cluster.nodes_of(two)) == ["n0", "n1"]
    [admitted] = [obj for obj in cluster.workloads() if obj["spec"]["podSets"][0]["count"] == 2]
    assert admitted["status"]["admission"]["podSetAssignments"][0]["resourceUsage"] == {"cpu": "5"}


def test_a_runtime_class_that_is_created_later_counts_for_pending_jobs() -> None:
    cluster = AdmittingCluster()
    queue = live_queue(cluster)
    first = cluster.submit("first", 4, pods=2)
    queue.settle(cluster.sync_jobs)
    waits = cluster.submit_with("waits", 4, runtimeClassName="kata")
    queue.settle(cluster.sync_jobs)
    cluster.create(RUNTIME_CLASSES, "", "kata", overhead={"podFixed": KATA})
    queue.settle(cluster.sync_jobs)
    cluster.complete(first)
    queue.settle(cluster.sync_jobs)
    assert not is_started(cluster, waits)


def test_a_gang_is_placed_on_the_nodes_of_its_runtime_class() -> None:
    cluster = AdmittingCluster()
    cluster.change(ObjectKey(NODES, "", "n1"), {"metadata": {"labels": GVISOR}})
    cluster.create(RUNTIME_CLASSES, "", "gvisor", scheduling={"nodeSelector": GVISOR})
    queue = live_queue(cluster)
    large, small = (cluster.submit_with(f"of-{pods}", pods, runtimeClassName="gvisor") for pods in (3, 2))
    queue.settle(cluster.sync_jobs)
    assert not is_started(cluster, large), "one of the two nodes has the class, and room for two pods"
    assert cluster.nodes_of(small) == ["n1", "n1"]


def test_default_requests_of_containers_count() -> None:
    cluster = AdmittingCluster()
    cluster.limit(defaultRequest={"cpu": "2"})
    queue = live_queue(cluster)
    six, four = (cluster.submit_with(f"of-{pods}", pods, containers=containers({})) for pods in (6, 4))
    queue.settle(cluster.sync_jobs)
    assert not is_started(cluster, six), "the nodes have room for 4 pods of 2 CPUs"
    assert sorted(cluster.nodes_of(four)) == ["n0", "n0", "n1", "n1"]


def test_a_changed_limit_range_stops_no_job() -> None:
    """Even a job whose pods would violate the range is not stopped after a restart."""
    cluster = AdmittingCluster()
    cluster.limit(defaultRequest={"cpu": "1"})
    queue = live_queue(cluster)
    job = cluster.submit_with("a", 4, containers=containers({}))
    queue.settle(cluster.sync_jobs)
    assert is_started(cluster, job)
    cluster.limit(defaultRequest={"cpu": "4"}, max={"cpu": "1m"})
    queue.settle(cluster.sync_jobs)
    successor = live_queue(cluster)
    successor.settle(cluster.sync_jobs)
    assert is_started(cluster, job)
    assert len(cluster.workloads()) == 1
    assert not queue.controller.invalid
    assert not successor.controller.invalid


def test_a_job_that_violates_a_limit_range_waits_until_it_is_changed() -> None:
    cluster = AdmittingCluster()
    cluster.limit(max={"cpu": "1"})
    queue = live_queue(cluster)
    job = cluster.submit("a", 2)
    queue.settle(cluster.sync_jobs)
    assert not is_started(cluster, job)
    [problem] = queue.controller.invalid.values()
    assert problem == (
        "spec.podSets[0].template.spec.containers[0]: cpu: requests must not be above the limitRange max"
    )
    cluster.limit(max={"cpu": "2"})
    queue.settle(cluster.sync_jobs)
    assert is_started(cluster, job)
    assert not queue.controller.invalid


@pytest.mark.parametrize("is_new_leader", [False, True])
@pytest.mark.parametrize("added", ["default request", "overhead"])
def test_running_pods_count_with_the_defaults_of_their_start(added: str, is_new_leader: bool) -> None:
    """The defaults increase while two pods of 1 CPU run: six other CPUs are still available."""
    cluster = AdmittingCluster()
    cluster.limit(defaultRequest={"cpu": "1"})
    queue = live_queue(cluster)
    running = cluster.submit_with("running", 2, containers=containers({}), runtimeClassName="other")
    queue.settle(cluster.sync_jobs)
    assert is_started(cluster, running)
    if added == "overhead":
        cluster.create(RUNTIME_CLASSES, "", "other", overhead={"podFixed": {"cpu": "3"}})
    else:
        cluster.limit(defaultRequest={"cpu": "4"})
    if is_new_leader:
        queue = live_queue(cluster)
    [workload] = [key for key in cluster.objects if key.resource == WORKLOADS]
    cluster.change(workload, {"metadata": {"labels": {"a": "b"}}})
    six = cluster.submit_with("six", 6, containers=containers({"cpu": "1"}))
    queue.settle(cluster.sync_jobs)
    assert is_started(cluster, six)


def test_a_new_leader_holds_the_overhead_of_a_job_whose_workload_was_deleted() -> None:
    cluster = AdmittingCluster()
    cluster.limit(defaultRequest={"cpu": "1"})
    cluster.create(RUNTIME_CLASSES, "", "kata", overhead={"podFixed": KATA})
    queue = live_queue(cluster)
    cluster.submit_with("a", 2, containers=containers({}), runtimeClassName="kata")
    queue.settle(cluster.sync_jobs)
    [workload] = [key for key in cluster.objects if key.resource == WORKLOADS]
    del cluster.objects[workload]
    successor = live_queue(cluster)
    successor.observe()
    successor.controller.step(NOW)
    [run] = successor.controller.feed.state.running.values()
    assert list(run.workload.usage.values()) == [3000], "two pods of 1.5 CPUs"


def test_a_limit_range_that_is_created_later_does_not_change_a_waiting_pod() -> None:
    """The API server has already accepted the pod and adds nothing more to it."""
    cluster = AdmittingCluster()
    queue = live_queue(cluster)
    first = cluster.submit("first", 4, pods=2)
    queue.settle(cluster.sync_jobs)
    plain = queued_pod("a", group="", cpu="2")
    labels = {**plain["metadata"]["labels"], "kueue.x-k8s.io/queue-name": "l"}
    pod = cluster.create(
        PODS, NAMESPACE, "a", metadata={"labels": labels}, spec=plain["spec"], status={"phase": "Pending"}
    )
    queue.settle(cluster.sync_jobs)
    cluster.limit(defaultRequest={"cpu": "9", "memory": "1Gi"}, max={"cpu": "1"})
    queue.settle(cluster.sync_jobs)
    cluster.complete(first)
    queue.settle(cluster.sync_jobs)
    assert not queue.controller.invalid
    assert cluster.get(pod)["spec"]["schedulingGates"] == []


def claim_template(cluster: AdmittingCluster, count: int) -> ObjectKey:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}]
    return cluster.create(
        RESOURCE_CLAIM_TEMPLATES, NAMESPACE, "gpus", spec={"spec": {"devices": {"requests": requests}}}
    )


def test_devices_of_a_claim_count_against_the_quota_of_their_class() -> None:
    """Without a quota of the class, the job waits. A mapping names another resource."""
    cluster = AdmittingCluster()
    claim = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]}
    queue = live_queue(cluster)
    job = cluster.submit_with("job", 2, **claim)
    queue.settle(cluster.sync_jobs)
    [problem] = queue.controller.invalid.values()
    assert problem.endswith("resourceClaims[0].resourceClaimTemplateName: ResourceClaimTemplate 'gpus' does not exist")
    claim_template(cluster, 1)
    queue.settle(cluster.sync_jobs)
    assert not is_started(cluster, job)
    settings = parse_resource_settings(
        {"deviceClassMappings": [{"name": "cpu", "deviceClassNames": ["gpu.nvidia.com"]}]}
    )
    queue = live_queue(cluster)
    state = queue.controller.feed.state
    state.settings = state.settings._replace(resources=settings)
    queue.settle(cluster.sync_jobs)
    assert is_started(cluster, job)
    [admitted] = cluster.workloads()
    assert admitted["status"]["admission"]["podSetAssignments"][0]["resourceUsage"] == {"cpu": str(2 * 2 + 2 * 1)}
    assert len(cluster.nodes_of(job)) == 2


def test_devices_count_once_their_template_exists() -> None:
    cluster = AdmittingCluster()
    queue = live_queue(cluster)
    state = queue.controller.feed.state
    mapping = {"deviceClassMappings": [{"name": "cpu", "deviceClassNames": ["gpu.nvidia.com"]}]}
    state.settings = state.settings._replace(resources=parse_resource_settings(mapping))
    job = cluster.submit_with("job", 2, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpus"}])
    queue.settle(cluster.sync_jobs)
    assert not is_started(cluster, job)
    claim_template(cluster, 1)
    queue.settle(cluster.sync_jobs)
    assert is_started(cluster, job)


@pytest.mark.parametrize(("prefix", "starts"), [("deviceclass.resource.kubernetes.io/", True), ("other/", False)])
def test_a_claim_that_cannot_be_counted_is_no_problem_if_no_device_counts(prefix: str, *, starts: bool) -> None:
    cluster = AdmittingCluster()
    queue = live_queue(cluster)
    state = queue.controller.feed.state
    settings = parse_resource_settings({"excludeResourcePrefixes": [prefix]})
    state.settings = state.settings._replace(resources=settings)
    requests = [{"name": "gpu", "firstAvailable": [{"name": "a", "deviceClassName": "gpu.nvidia.com"}]}]
    cluster.create(RESOURCE_CLAIM_TEMPLATES, NAMESPACE, "any", spec={"spec": {"devices": {"requests": requests}}})
    job = cluster.submit_with("job", 2, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "any"}])
    queue.settle(cluster.sync_jobs)
    assert is_started(cluster, job) is starts


def test_devices_count_only_once_their_templates_can_be_read() -> None:
    """An upgraded controller without the permission to list templates starts jobs as before. A later role counts."""
    cluster = AdmittingCluster()
    claim = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]}
    claim_template(cluster, 1)
    queue = live_queue(cluster, RESOURCE_CLAIM_TEMPLATES)
    first = cluster.submit_with("first", 2, **claim)
    queue.settle(cluster.sync_jobs)
    assert is_started(cluster, first)
    queue.unreadable = frozenset()
    queue.settle(cluster.sync_jobs)
    second = cluster.submit_with("second", 1, **claim)
    queue.settle(cluster.sync_jobs)
    assert is_started(cluster, first), "a running job keeps its quota"
    assert not is_started(cluster, second)
    assert not queue.controller.invalid
