"""Waiting pods: which of them a pass may bind, and in which order."""

from __future__ import annotations

from support.ledger_kubelets import SHARED, pod_shape
from zonewise_common.k8s.labels import Requirement
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.extender.objects.scheduling_spec import SchedulingSpec
from zonewise_scheduler.extender.state.waiting_pods import DELEGATION_LIFETIME, REQUEST_LIFETIME, WaitingPods
from zonewise_scheduler.nodes.assumed.types import PendingPod
from zonewise_scheduler.nodes.filters.anti_affinity import AntiAffinityTerm
from zonewise_scheduler.nodes.filters.constraints import Constraints

SPEC = SchedulingSpec()
WEB = AntiAffinityTerm(("lab",), (Requirement("app", "In", ("web",)),))


def pod(name: str) -> PendingPod:
    return PendingPod(name, "lab", name, pod_shape((1, 0)))


def names(pods: WaitingPods) -> list[str]:
    return [waiting.pod.name for unit in pods.units() for waiting in unit.pods]


def with_pods(**specs: SchedulingSpec) -> WaitingPods:
    pods = WaitingPods()
    for name, spec in specs.items():
        pods.observe(pod(name), spec, 0.0)
        pods.request(name, 0.0)
    return pods


def test_rank() -> None:
    """Pods are ordered by priority, then by age, then by the order of observation."""
    pods = with_pods(
        a=SPEC._replace(created=2), b=SPEC._replace(created=1), c=SPEC._replace(created=1), d=SPEC._replace(priority=1)
    )
    assert names(pods) == ["d", "b", "c", "a"]


def test_only_pods_that_kube_scheduler_has_filtered() -> None:
    """A pod that kube-scheduler has not filtered, or that was withdrawn, is not placed."""
    pods = WaitingPods()
    pods.observe(pod("a"), SPEC, 0.0)
    assert names(pods) == []
    pods.request("a", 0.0)
    assert names(pods) == ["a"]
    pods.withdraw("a")
    assert names(pods) == []
    pods.request("a", 0.0)
    pods.remove("a")
    assert names(pods) == []


def test_a_pod_that_kube_scheduler_rejects_with_its_own_filters() -> None:
    """Such a pod has no filter call. Its condition counts after its scheduler has called the filter for any pod."""
    pods = WaitingPods()
    pods.observe(pod("a"), SPEC._replace(unschedulable=True), 0.0)
    pods.observe(pod("other"), SPEC._replace(unschedulable=True, scheduler="other"), 0.0)
    pods.observe(pod("untried"), SPEC, 0.0)
    assert names(pods) == []
    pods.observe(pod("b"), SPEC, 1.0)
    version = pods.version
    pods.request("b", 1.0)
    assert (names(pods), pods.version > version) == (["a", "b"], True)
    pods.withdraw("a")
    pods.observe(pod("a"), SPEC._replace(unschedulable=True, priority=1), 2.0)
    assert names(pods) == ["b"], "its condition is the old one"
    pods.request("a", 3.0)
    assert names(pods) == ["a", "b"]


def test_schedulers_that_have_tried_pods_before_the_start() -> None:
    """The youngest pod of each is returned, until the scheduler calls the filter."""
    tried = SPEC._replace(unschedulable=True)
    pods = WaitingPods()
    pods.observe(pod("old"), tried, 0.0)
    pods.observe(pod("young"), tried._replace(created=5.0), 0.0)
    pods.observe(pod("gated"), tried._replace(created=6.0, gated=True), 0.0)
    pods.observe(pod("shared")._replace(shape=SHARED), tried._replace(created=7.0), 0.0)
    pods.observe(pod("untried"), SPEC._replace(created=8.0), 0.0)
    pods.observe(pod("other"), tried._replace(scheduler="other"), 0.0)
    assert [each.name for each in pods.of_unknown_schedulers()] == ["young", "other"]
    pods.request("old", 1.0)
    assert [each.name for each in pods.of_unknown_schedulers()] == ["other"]


def test_a_pod_that_is_filtered_before_it_is_observed() -> None:
    """kube-scheduler may know a pod before the extender does. A pod that is not observed within a minute is dropped."""
    pods = WaitingPods()
    pods.request("a", 0.0)
    pods.request("gone", 0.0)
    pods.observe(pod("a"), SPEC, 1.0)
    assert names(pods) == ["a"]
    pods.expire(REQUEST_LIFETIME)
    pods.observe(pod("gone"), SPEC, 61.0)
    assert names(pods) == ["a"]


def test_pods_that_are_left_to_kube_scheduler() -> None:
    """Gated pods, and pods with a constraint that only kube-scheduler checks, are not placed."""
    pods = with_pods(
        a=SPEC._replace(gated=True),
        b=SPEC._replace(has_workload=True),
        c=SPEC._replace(constraints=Constraints(scheduler_only=("volumes",))),
        d=SPEC,
    )
    assert names(pods) == ["d"]
    pods.observe(pod("a"), SPEC, 1.0)
    assert names(pods) == ["a", "d"], "its gates are removed; it keeps its place"


def test_anti_affinity_of_another_pod() -> None:
    """While another pod's anti-affinity term selects a pod, that pod is left to kube-scheduler."""
    pods = with_pods(a=SPEC._replace(labels=(("app", "web"),)), b=SPEC)
    pods.set_terms("x", (WEB,))
    pods.set_terms("y", (WEB,))
    assert names(pods) == ["b"]
    pods.set_terms("x", ())
    assert names(pods) == ["b"]
    pods.set_terms("y", ())
    assert names(pods) == ["a", "b"]


def test_the_version_changes_with_the_pods() -> None:
    """While it does not change, the units are not computed again."""
    pods = with_pods(a=SPEC)
    version, units = pods.version, pods.units()
    pods.observe(pod("a"), SPEC, 3.0)
    pods.request("a", 0.0)
    assert pods.version == version
    assert pods.units() is units
    pods.observe(pod("b"), SPEC, 3.0)
    assert pods.version > version


def test_delegated_resources() -> None:
    """Pods that request a delegated resource are left to kube-scheduler until the delegation is old."""
    gpu = Constraints(Resource(1_000, 0, 1, 0, (("example.com/gpu", 1),)))
    pods = with_pods(a=SPEC._replace(constraints=gpu), b=SPEC)
    [waiting] = [each for each in pods.tried() if each.pod.name == "a"]
    assert not pods.is_delegated(waiting)
    version = pods.version
    assert pods.delegate("example.com/gpu", frozenset({"n"}), 1.0)
    assert pods.version > version
    assert pods.is_delegated(waiting)
    assert not pods.delegate("example.com/gpu", frozenset({"n"}), 1.0)
    assert pods.delegate("example.com/gpu", frozenset({"n", "m"}), 1.0)
    assert pods.delegated() == {"example.com/gpu": frozenset({"n", "m"})}
    assert names(pods) == ["b"]
    assert [each.pod.name for each in pods.left_to_scheduler()] == ["a"]
    pods.expire(DELEGATION_LIFETIME)
    assert names(pods) == ["b"]
    pods.expire(1.0 + DELEGATION_LIFETIME)
    assert names(pods) == ["a", "b"]
    assert pods.delegated() == {}
