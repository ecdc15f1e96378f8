"""Requests reserved for pods without a confirmed binding, until they are forgotten, deleted or bound, or time out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.ledger_kubelets import SHARED
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.extender.state.bindings import Bindings
from zonewise_scheduler.extender.state.node_infos import NodeInfos
from zonewise_scheduler.nodes.assumed.ledger import Ledger
from zonewise_scheduler.nodes.assumed.types import PendingPod
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.node.node_info import NodeInfo, PodInfo

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT = 120.0
TWO = Constraints(Resource(2_000, 0, 1, 0))
"""A pod that requests two of the node's three CPUs."""


def bindings() -> tuple[Bindings, Ledger]:
    infos, ledger = NodeInfos(), Ledger()
    infos.set_node(NodeInfo("n", allocatable=Resource(3_000, 1 << 30, 10, 0)))
    return Bindings(ledger, infos, TIMEOUT), ledger


def fits(parts: Bindings) -> bool:
    """Return whether another pod of two CPUs fits on the node."""
    return parts.insufficient("other", TWO, "n") is None


def test_how_a_reservation_ends() -> None:
    """Each event other than the binding itself frees the requests. A pod never counts against itself."""
    ends: list[Callable[[Bindings], object]] = [
        lambda parts: parts.release("p"),
        lambda parts: parts.remove("p"),
        lambda parts: parts.expire(TIMEOUT),
    ]
    for end in ends:
        parts, _ = bindings()
        parts.reserve("p", TWO, "n", 0.0)
        parts.expire(TIMEOUT - 1)
        assert not fits(parts)
        assert parts.insufficient("p", TWO, "n") is None
        end(parts)
        assert fits(parts)


def test_a_reservation_that_is_held() -> None:
    """A held reservation may expire later than others, but never earlier. A pod without a reservation holds nothing."""
    for until in (1.0, 5 * TIMEOUT):
        parts, _ = bindings()
        parts.hold("p", until)
        assert fits(parts)
        parts.reserve("p", TWO, "n", 0.0)
        parts.hold("p", until)
        parts.expire(max(until, TIMEOUT) - 1)
        assert not fits(parts)
        parts.expire(max(until, TIMEOUT))
        assert fits(parts)


def test_a_bound_pod_counts_only_with_its_requests() -> None:
    """The requests of a bound pod count until the pod is deleted, whatever happens to its reservation."""
    parts, _ = bindings()
    parts.reserve("p", TWO, "n", 0.0)
    parts.observe_bound("p", "n", PodInfo(TWO.requests))
    parts.expire(TIMEOUT)
    parts.release("p")
    assert not fits(parts)
    parts.remove("p")
    assert fits(parts)


def test_only_a_requested_binding_is_confirmed() -> None:
    """A binding that an event has ended meanwhile is not confirmed."""
    parts, ledger = bindings()
    pod = PendingPod("p", "lab", "p", SHARED)
    parts.confirm(pod, "n")
    assert ledger.node_of("p") is None
    parts.requested["p"] = "n"
    parts.confirm(pod, "n")
    assert ledger.node_of("p") == "n"


def test_a_resource_that_the_node_lacks() -> None:
    """kube-scheduler has passed the node, so something else provides the resource. Hugepages always count."""
    parts, _ = bindings()
    for name, fits_on_node in (("example.com/gpu", True), ("hugepages-2Mi", False)):
        requests = TWO.requests._replace(scalar_resources=((name, 1),))
        assert (parts.insufficient("p", Constraints(requests), "n") is None) is fits_on_node


def test_a_resource_that_is_in_use() -> None:
    """A device plugin provides the resource, so its amount counts."""
    infos, gpu = NodeInfos(), (("example.com/gpu", 1),)
    infos.set_node(NodeInfo("n", allocatable=Resource(9_000, 1 << 30, 10, 0, gpu)))
    parts = Bindings(Ledger(), infos, TIMEOUT)
    constraints = Constraints(TWO.requests._replace(scalar_resources=gpu))
    assert parts.insufficient("p", constraints, "n") is None
    parts.reserve("p", constraints, "n", 0.0)
    assert parts.insufficient("q", constraints, "n") == "Insufficient example.com/gpu"
