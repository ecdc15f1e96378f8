"""Preemption by `zonewise scheduler --extender-only`: its own evictions, and the verb `preempt` over HTTP."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.definitions import definition_of
from support.extender import Caller, Extender, ExtenderCluster, build_nrt, build_pod, new_cluster, running_extender
from support.ledger_kubelets import SHARED, SINGLE, Kubelet, node_kind, pod_shape
from support.pod_groups import POD_GROUP_CRD, pod_group
from support.waiting import eventually
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt import names
from zonewise_common.nrt.holdings import Holdings, holdings_key, write_holdings
from zonewise_scheduler.admission.node import idle_node
from zonewise_scheduler.nodes.assumed.types import PendingPod

if TYPE_CHECKING:
    from collections.abc import Generator

    from zonewise_scheduler.admission.pod import PodShape

KIND = node_kind(SINGLE, gpus=0)
"""Two zones of eight CPUs."""
FIVE, SIX = pod_shape((5, 0)), pod_shape((6, 0))
ZONES = {zone: CpuSet.from_bits(bits) for zone, bits in KIND.cpus.zones}
CRDS = "apiextensions.k8s.io/v1/customresourcedefinitions"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/lab/podgroups"
Json = dict[str, Any]
BUDGETS = definition_of("poddisruptionbudgets.policy", "PodDisruptionBudget", "v1", status=True)
"""The server in memory does not define this kind."""


class Site:
    """A node whose two zones run a pod of five CPUs each, and an extender for it."""

    def __init__(self, world: ExtenderCluster, extender: Extender, caller: Caller) -> None:
        self.world, self.extender, self.caller = world, extender, caller
        self.kubelet = Kubelet("n", idle_node(KIND))
        self.running = {name: self._run(name, priority) for name, priority in (("a", 2), ("b", 1))}
        self.report()
        extender.until(lambda: extender.state("n").get("freeCpus", {}).get("zone 1") == "13-15")

    def _run(self, name: str, priority: int) -> Json:
        """Run a pod on the node."""
        pod = self.create(name, FIVE, priority)
        self.world.bind(pod, "n")
        assert self.kubelet.decide(PendingPod(pod["metadata"]["uid"], "lab", name, FIVE)).admitted
        self.world.set_status(pod, phase="Running", startTime="2026-01-01T00:00:00Z")
        return pod

    def create(self, name: str, shape: PodShape, priority: int, *, group: str = "") -> Json:
        """Create a pod with a priority, in a PodGroup if one is named."""
        pod = build_pod(name, shape)
        pod["spec"]["priority"] = priority
        if group:
            pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": group}
        return self.world.create(pod)

    def report(self) -> None:
        """Publish a report with the resources of each pod."""
        report = self.kubelet.report()
        assert report.state is not None
        nrt = build_nrt("n", report.state, report.fingerprints)
        held = (
            (holdings_key(pod.namespace, pod.name), Holdings(self.kubelet.held[uid].cpus))
            for uid, pod in self.kubelet.pods.items()
        )
        for zone, text in write_holdings(held, ZONES).items():
            owner = next((each for each in nrt["zones"] if each["name"] == f"node-{zone}"), nrt)
            owner["attributes"].append({"name": names.HOLDINGS, "value": text})
        self.world.publish(nrt)

    def uid(self, name: str) -> str:
        return self.running[name]["metadata"]["uid"]

    def remaining(self) -> set[str]:
        """Return the running pods that were not evicted."""
        pods = {name: self.world.api.get(f"/api/v1/namespaces/lab/pods/{name}") for name in self.running}
        return {
            name for name, pod in pods.items() if pod.status == 200 and "deletionTimestamp" not in pod.body["metadata"]
        }

    def preempt(self, pod: Json, victims: dict[str, list[str]]) -> Json:
        """Propose victims by node, as kube-scheduler does; return the response."""
        proposed = {
            node: {"Pods": [{"UID": self.uid(name)} for name in pods], "NumPDBViolations": 0}
            for node, pods in victims.items()
        }
        return self.caller.call("preempt", {"Pod": pod, "NodeNameToMetaVictims": proposed}).json


@contextlib.contextmanager
def new_site(*flags: str, budgets: bool = True) -> Generator[Site]:
    with new_cluster() as world:
        if budgets:
            world.api.post(f"/apis/{CRDS}", BUDGETS).ok()
        world.api.post(f"/apis/{CRDS}", yaml.safe_load(POD_GROUP_CRD.read_text())).ok()
        world.add_node("n")
        with running_extender("--api-server", world.server.url, *flags) as extender:
            extender.until(extender.ready)
            with contextlib.closing(Caller(extender)) as caller:
                yield Site(world, extender, caller)
                extender.close()


@pytest.fixture
def site() -> Generator[Site]:
    with new_site() as built:
        yield built


def test_a_rejected_pod_preempts(site: Site) -> None:
    """The node has six free CPUs, but no zone has: the lowest pod is evicted, and the node is nominated."""
    pod = site.create("high", SIX, 10)
    assert site.caller.filter(pod, ["n"]).selected_node == ""
    eventually(lambda: site.remaining() == {"a"})
    assert site.world.pod("high")["status"]["nominatedNodeName"] == "n"
    site.extender.until(lambda: site.extender.metric('zonewise_preemption_victims_total{by="zonewise"}') == 1)
    site.kubelet.end_pod(site.uid("b"))
    site.world.delete(site.running["b"])
    site.report()
    eventually(lambda: site.world.pod("high")["spec"].get("nodeName") == "n")


def test_without_disruption_budgets() -> None:
    """If a server does not serve PodDisruptionBudgets, there are none to respect."""
    with new_site(budgets=False) as site:
        assert site.caller.filter(site.create("high", SIX, 10), ["n"]).selected_node == ""
        eventually(lambda: site.remaining() == {"a"})


def test_a_gang_preempts(site: Site) -> None:
    """Two members need both zones of the node: both pods are evicted for them, and none for a gang of three."""
    for name, size in (("three", 3), ("two", 2)):
        site.world.api.post(GROUPS, pod_group(name, size)).ok()
        pods = [site.create(f"{name}-{number}", SIX, 10, group=name) for number in range(size)]
        eventually(lambda pod=pods[0]: "does not fit" in str(site.caller.filter(pod, ["n"]).reasons))
    eventually(lambda: site.remaining() == set())
    assert site.world.pod("two-0")["status"]["nominatedNodeName"] == "n"
    assert "nominatedNodeName" not in site.world.pod("three-0").get("status", {})


def test_a_gang_preempts_on_nodes_that_are_full(site: Site) -> None:
    """kube-scheduler filters no member, but proposes victims for one: both pods are evicted for all members."""
    site.world.api.post(GROUPS, pod_group("two", 2)).ok()
    pod, _ = (site.create(f"two-{number}", SIX, 10, group="two") for number in range(2))

    def evicts() -> bool:
        assert site.preempt(pod, {"n": ["a"]}) == {"NodeNameToMetaVictims": {}}
        return site.remaining() == set()

    eventually(evicts)
    for name, running in site.running.items():
        site.kubelet.end_pod(site.uid(name))
        site.world.delete(running)
    site.report()
    eventually(lambda: all(site.world.pod(f"two-{number}")["spec"].get("nodeName") == "n" for number in range(2)))


def test_the_verb_for_a_further_pod_of_a_gang(site: Site) -> None:
    """A pod that its gang does not need preempts by itself."""
    site.world.api.post(GROUPS, pod_group("one", 1)).ok()
    pod = site.create("one-0", SIX, 10, group="one")
    victims = {"n": {"Pods": [{"UID": site.uid("b")}], "NumPDBViolations": 0}}
    eventually(lambda: site.preempt(pod, {"n": ["a"]})["NodeNameToMetaVictims"] == victims)


def test_pods_that_preempt_nothing(site: Site) -> None:
    """No pod is evicted for a pod of equal priority, nor for one whose policy is Never."""
    low, never = site.create("low", SIX, 1), build_pod("never", SIX)
    never["spec"] |= {"priority": 10, "preemptionPolicy": "Never"}
    for pod in (low, site.world.create(never)):
        assert site.caller.filter(pod, ["n"]).selected_node == ""
    high = site.create("high", SIX, 10)  # the loop has processed all three once its pod is evicted
    assert site.caller.filter(high, ["n"]).selected_node == ""
    eventually(lambda: site.remaining() == {"a"})
    site.extender.until(lambda: site.extender.metric('zonewise_preemptions_total{by="zonewise"}') == 1)


def test_the_verb(site: Site) -> None:
    """The response replaces kube-scheduler's victims with those of a sufficient zone, only on the proposed nodes."""
    pod = site.create("high", SIX, 10)
    victims = {"n": {"Pods": [{"UID": site.uid("b")}], "NumPDBViolations": 0}}
    eventually(lambda: site.preempt(pod, {"n": ["a"]})["NodeNameToMetaVictims"] == victims)  # the pod must be observed
    assert site.remaining() == {"a", "b"}, "kube-scheduler evicts them"
    assert site.preempt(pod | {"spec": pod["spec"] | {"priority": 1}}, {"n": ["a"]}) == {"NodeNameToMetaVictims": {}}


def test_the_verb_for_other_pods(site: Site) -> None:
    """For a pod that no kubelet aligns, the victims do not change; for a member of a gang, no pod is evicted."""
    shared = site.create("shared", SHARED, 10)
    [victims] = site.preempt(shared, {"n": ["a"]})["NodeNameToMetaVictims"].values()
    assert [each["UID"] for each in victims["Pods"]] == [site.uid("a")]
    member = build_pod("member", SIX)
    member["metadata"] |= {"uid": "uid-member", "labels": {"scheduling.x-k8s.io/pod-group": "g"}}
    assert site.preempt(member, {"n": ["a"]}) == {"NodeNameToMetaVictims": {}}


def test_the_verb_without_preemption() -> None:
    """If preemption is disabled, kube-scheduler's victims do not change."""
    with new_site("--preemption", "false") as site:
        [victims] = site.preempt(site.create("high", SIX, 10), {"n": ["a"]})["NodeNameToMetaVictims"].values()
        assert [each["UID"] for each in victims["Pods"]] == [site.uid("a")]


def test_invalid_requests(site: Site) -> None:
    """The error of an invalid request names its field."""
    for body in (b"", b"{}", b'{"Pod": {}, "NodeNameToMetaVictims": 1}'):
        assert site.caller.send("/preempt", body).status == 400
    reply = site.caller.call("preempt", {"Pod": {"metadata": {}}, "NodeNameToMetaVictims": {}})
    assert reply.status == 400
    assert "metadata.uid" in reply.text
