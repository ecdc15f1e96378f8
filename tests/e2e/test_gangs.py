"""Gangs of plain pods, with our extender and with real kube-scheduler and kubelets."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.e2e.cluster import NAMESPACE, PODS, Cluster, extending, running_cluster, scheduling, skip_reason
from support.e2e.pods import container, pod
from support.e2e.settings import Settings
from support.pod_groups import POD_GROUP_CRD, pod_group
from support.published_faults import FAULT_REASON, published_fault
from zonewise_common.kube.config import Config

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

pytestmark = [pytest.mark.skipif(skip_reason() is not None, reason=str(skip_reason())), pytest.mark.timeout(300)]

Object = dict[str, Any]

NODES = ("n0", "n1", "n2", "n3")
GROUPS = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/podgroups"
IN_TREE_GROUPS = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{NAMESPACE}/podgroups"
GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
CLASSES = "/apis/resource.k8s.io/v1"
REJECTION_REASONS = ("TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError", "OutOfcpu")


@pytest.fixture(scope="module")
def cluster() -> Generator[Cluster]:
    """Yield four nodes with two zones of 16 CPUs each; the kubelet reserves two CPUs of the first zone."""
    settings = {name: Settings(topology="single-numa-node", reconcile="1s") for name in NODES}
    flags = (GATES, "--runtime-config=scheduling.k8s.io/v1alpha2=true")
    with running_cluster(settings, flags=flags) as cluster:
        cluster.server.admin.post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(POD_GROUP_CRD.read_text())
        ).ok()
        cluster.until(lambda: cluster.server.admin.get(GROUPS).status == 200, lambda: "PodGroups are not served")
        yield cluster


def guaranteed(name: str, cpus: int, node: str = "") -> Object:
    obj = pod(name, container(cpu=str(cpus), memory="1Gi"), restart="Never")
    if node:
        obj["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return obj


def members(group: str, count: int, cpus: int) -> list[Object]:
    pods = [guaranteed(f"{group}-{index}", cpus) for index in range(count)]
    for obj in pods:
        obj["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": group}
    return pods


def names(pods: Sequence[Object]) -> list[str]:
    return [obj["metadata"]["name"] for obj in pods]


def runs(obj: Object) -> bool:
    return obj["status"].get("phase") == "Running"


def message(obj: Object) -> str:
    """Return why a pod waits according to kube-scheduler; empty if it has not tried the pod."""
    conditions: list[Object] = obj["status"].get("conditions", [])
    return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")


def await_reason(cluster: Cluster, name: str, part: str) -> None:
    """Wait until kube-scheduler's reason for a waiting pod contains a text.

    A reason is that of the last attempt. While pods start, an attempt may count their resources both as assumed and as
    reported. Without changes, no event causes another attempt, so this function triggers each attempt with a new label.
    """
    tries = itertools.count()

    def is_given() -> bool:
        if part in message(cluster.pods()[name]):
            return True
        cluster.server.admin.patch(f"{PODS}/{name}", {"metadata": {"labels": {"try": str(next(tries))}}}).ok()
        return False

    cluster.until(is_given, lambda: message(cluster.pods()[name]))


def nodes_of(cluster: Cluster, pods: Sequence[Object]) -> list[str]:
    """Return the nodes of the bound pods; fail if a kubelet has rejected any pod."""
    observed = cluster.pods()
    reasons = {name: obj["status"].get("reason") for name, obj in observed.items()}
    assert not [name for name, reason in reasons.items() if reason in REJECTION_REASONS], reasons
    return [node for name in names(pods) if (node := observed[name]["spec"].get("nodeName", ""))]


def test_two_gangs_that_do_not_fit_together(cluster: Cluster) -> None:
    """Each gang needs five of eight zones. One starts as a whole, and the other only when the first has ended."""
    gangs = [members(group, 5, 9) for group in ("red", "blue")]
    with extending(cluster) as extender, scheduling(cluster, extender=extender):
        for group in ("red", "blue"):
            cluster.server.admin.post(GROUPS, pod_group(group, 5)).ok()
        cluster.create([obj for pair in zip(*gangs, strict=True) for obj in pair])

        def one_is_placed() -> bool:
            return sorted(len(nodes_of(cluster, gang)) for gang in gangs)[1] == 5

        cluster.until(one_is_placed, lambda: extender.said[-4000:])
        first, second = sorted(gangs, key=lambda gang: -len(nodes_of(cluster, gang)))
        cluster.settled(names(first), runs)
        await_reason(cluster, names(second)[0], "does not fit: 3 of 5 pods like")
        assert nodes_of(cluster, second) == []
        for name in names(first):
            cluster.delete(name)
        cluster.settled(names(second), runs)
        assert len(nodes_of(cluster, second)) == 5
        cluster.clear()


def test_a_gang_of_kube_scheduler_itself(cluster: Cluster) -> None:
    """With the gate GangScheduling, kube-scheduler filters all pods of a gang before it binds one."""
    gangs = [members(group, 5, 9) for group in ("cyan", "pink")]
    for obj in itertools.chain(*gangs):
        obj["spec"]["schedulingGroup"] = {
            "podGroupName": obj["metadata"].pop("labels")["scheduling.x-k8s.io/pod-group"]
        }
    with extending(cluster) as extender, scheduling(cluster, GATES, extender=extender):
        for group in ("cyan", "pink"):
            spec = {"schedulingPolicy": {"gang": {"minCount": 5}}}
            cluster.server.admin.post(IN_TREE_GROUPS, {"metadata": {"name": group}, "spec": spec}).ok()
        cluster.create([obj for pair in zip(*gangs, strict=True) for obj in pair])
        cluster.until(
            lambda: sorted(len(nodes_of(cluster, gang)) for gang in gangs)[1] == 5, lambda: extender.said[-4000:]
        )
        first, second = sorted(gangs, key=lambda gang: -len(nodes_of(cluster, gang)))
        cluster.settled(names(first), runs)
        cluster.settled(names(second)[:1], lambda obj: "does not fit: 3 of 5 pods like" in message(obj))
        assert nodes_of(cluster, second) == []
        for name in names(first):
            cluster.delete(name)
        cluster.settled(names(second), runs)
        cluster.clear()


def test_a_gang_that_fits_only_by_totals(cluster: Cluster) -> None:
    """Twelve pods of 4 CPUs fit on four nodes by their total CPUs, but not by their zones.

    Each node has 12 free CPUs: 9 and 3, or 7 and 5 in its zones. Three pods fit on it by the total, two by the zones.
    The whole gang waits until two nodes have more free CPUs.
    """
    fillers = [guaranteed(f"filler-{node}-{cpus}", cpus, node) for node in NODES for cpus in (11, 7)]
    gang = members("green", 12, 4)
    with extending(cluster) as extender, scheduling(cluster, extender=extender):
        cluster.create(fillers)
        cluster.settled(names(fillers), runs)
        cluster.server.admin.post(GROUPS, pod_group("green", 12)).ok()
        cluster.create(gang[:11])
        cluster.settled(names(gang[:1]), lambda obj: "waits for " in message(obj))
        cluster.create(gang[11:])
        await_reason(cluster, names(gang)[11], "PodGroup lab/green does not fit: 8 of 12 pods like green-")
        assert nodes_of(cluster, gang) == []
        for node in NODES[:2]:
            cluster.delete(f"filler-{node}-11")
        cluster.settled(names(gang), runs)
        assert len(nodes_of(cluster, gang)) == 12
        cluster.clear()


def test_a_gang_avoids_a_suspect_until_its_condition_is_over(cluster: Cluster) -> None:
    """Six pods use the zones of the other nodes. A gang of two waits, although the zones of the suspect are free."""
    small, large, single = members("small", 6, 9), members("large", 2, 9), guaranteed("single", 9)
    server = cluster.server
    with contextlib.ExitStack() as repair:
        repair.enter_context(published_fault(Config.from_url(server.url, server.token, ca=server.ca), "n0"))
        with extending(cluster, "--avoid-conditions", "hardware") as extender, scheduling(cluster, extender=extender):
            for gang in (small, large):
                group = gang[0]["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"]
                server.admin.post(GROUPS, pod_group(group, len(gang))).ok()
            cluster.create(small)
            cluster.settled(names(small), runs)
            assert sorted(nodes_of(cluster, small)) == ["n1", "n1", "n2", "n2", "n3", "n3"]
            cluster.create(large)
            await_reason(cluster, names(large)[0], f"n0: {FAULT_REASON}")
            cluster.create([single])
            cluster.settled(["single"], runs)
            assert nodes_of(cluster, [single]) == ["n0"]
            assert nodes_of(cluster, large) == []
            cluster.delete("single")
            repair.close()
            cluster.settled(names(large), runs)
            assert nodes_of(cluster, large) == ["n0", "n0"]
            cluster.clear()


def test_a_gang_with_devices_of_a_device_class(cluster: Cluster) -> None:
    """No node has the resource. The gang gets the nodes that have devices, and kube-scheduler allocates claims."""
    resource, driver = "example.com/accelerator", "accelerators.example.com"
    admin = cluster.server.admin
    selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
    spec: Object = {"extendedResourceName": resource, "selectors": [selector]}
    admin.post(f"{CLASSES}/deviceclasses", {"metadata": {"name": "accelerator"}, "spec": spec}).ok()
    for node in NODES[2:]:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"a{index}"} for index in range(2)]
        spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
        admin.post(f"{CLASSES}/resourceslices", {"metadata": {"name": node}, "spec": spec}).ok()
    gang = members("dra", 4, 9)
    for obj in gang:
        for amounts in obj["spec"]["containers"][0]["resources"].values():
            amounts[resource] = "1"
    with extending(cluster) as extender, scheduling(cluster, extender=extender):
        admin.post(GROUPS, pod_group("dra", 4)).ok()
        cluster.create(gang)
        cluster.settled(names(gang), lambda obj: bool(obj["spec"].get("nodeName")))  # no driver runs to start them
        assert sorted(nodes_of(cluster, gang)) == ["n2", "n2", "n3", "n3"]
        assert "mispredicted" not in extender.said
        cluster.clear()
