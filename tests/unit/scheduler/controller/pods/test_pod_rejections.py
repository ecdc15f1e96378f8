"""Rejections count from the admission of their workload, and each counts once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.held_pods import held_pod, managed
from zonewise_scheduler.controller.pods.pod_rejections import PodRejection, PodRejections

if TYPE_CHECKING:
    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod


def pod(name: str, node: str, reason: str = "") -> ManagedPod:
    """Return a pod on a node; with a reason, its kubelet has rejected it."""
    status = {"phase": "Failed", "reason": reason, "message": "no room"} if reason else {"phase": "Pending"}
    return managed({**held_pod(name, nodeName=node), "status": status})


def reject(rejections: PodRejections, name: str, node: str, reason: str = "TopologyAffinityError") -> bool:
    return rejections.observe(pod(name, node), pod(name, node, reason))


def test_a_rejection_is_reported_once() -> None:
    rejections = PodRejections()
    assert reject(rejections, "a", "n0")
    assert not rejections.observe(pod("a", "n0", "TopologyAffinityError"), pod("a", "n0", "TopologyAffinityError"))
    (told,) = rejections.take_new()
    assert told == PodRejection("ns/w", "a", "n0", "TopologyAffinityError", "no room")
    assert told.text == "the kubelet of n0 rejected pod a: TopologyAffinityError: no room"
    assert rejections.take_new() == []


def test_the_second_rejection_by_one_node_ends_an_admission() -> None:
    rejections = PodRejections()
    reject(rejections, "a", "n0")
    reject(rejections, "b", "n1")
    assert rejections.decisive("ns/w") is None
    reject(rejections, "c", "n1", "OutOfcpu")
    last = rejections.decisive("ns/w")
    assert last is not None
    assert (last.pod, last.node) == ("c", "n1")
    rejections.end_admission("ns/w")
    assert rejections.decisive("ns/w") is None


def test_pods_of_earlier_admissions_and_other_failures_do_not_count() -> None:
    rejections = PodRejections()
    assert not rejections.observe(None, pod("old", "n0", "TopologyAffinityError"))
    assert not reject(rejections, "evicted", "n0", "Evicted")
    assert rejections.take_new() == []
