"""One kubelet's answer to one pod, foretold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.fit.kubelet.books import Books
from zonewise_scheduler.fit.kubelet.refusal import Refusal
from zonewise_scheduler.fit.kubelet.room import check_room
from zonewise_scheduler.fit.kubelet.scopes import admit_containers
from zonewise_scheduler.fit.kubelet.unknown import unknown_to
from zonewise_scheduler.fit.model.verdict import Verdict

if TYPE_CHECKING:
    from zonewise_scheduler.fit.model.node import NodeKind, NodeState, Room
    from zonewise_scheduler.fit.model.pod import PodShape


def admit(state: NodeState, pod: PodShape, room: Room | None = None) -> Verdict:
    """Return what the kubelet of a node will answer to a pod, and what it will give it.

    Exact for kubelets 1.31 to 1.37: first the Topology Manager with its device, CPU and memory managers
    (pkg/kubelet/cm), then, where room is told, the node as a whole (pkg/kubelet/lifecycle/predicate.go). The node
    afterwards still holds what init containers of the pod were given and later ones did not take over: the kubelet
    keeps their CPUs and devices until the pod is gone, and their memory until the next container starts.
    """
    books = Books(state, pod)
    try:
        check_start(state.kind)
        admit_containers(books)
        books.at = ""
        if room is not None:
            check_room(pod, room)
    except Refusal as refusal:
        return Verdict(
            False,
            reason=refusal.reason,
            message=refusal.message,
            container=books.at,
            resource=refusal.resource,
            uncertain=_uncertain(books),
        )
    return Verdict(True, books.assignments(), books.state, uncertain=_uncertain(books))


def check_start(kind: NodeKind) -> None:
    """Raise Refusal, with no reason, for a node whose kubelet does not even start (topology_manager.go NewManager)."""
    policies = kind.policies
    if policies.topology != "none" and len(kind.zones) > policies.max_zones:
        raise Refusal("", f"unsupported on machines with more than {policies.max_zones} NUMA Nodes")


def _uncertain(books: Books) -> tuple[str, ...]:
    return (*unknown_to(books.state.kind, books.pod), *books.doubts)
