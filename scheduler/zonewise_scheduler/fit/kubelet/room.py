"""What a pod requests of a node as a whole, and whether it is there.

The kubelet's second question, after the Topology Manager's (pkg/kubelet/lifecycle/predicate.go generalFilter), and the
scheduler's (pkg/scheduler/framework/plugins/noderesources/fit.go fitsRequest).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.fit.kubelet.asks import at_most
from zonewise_scheduler.fit.kubelet.refusal import Refusal

if TYPE_CHECKING:
    from zonewise_scheduler.fit.model.node import Room
    from zonewise_scheduler.fit.model.pod import Amounts, Container, PodShape

_CPU, _MEMORY, _PODS, _STORAGE = "cpu", "memory", "pods", "ephemeral-storage"
_FIRST = (_PODS, _CPU, _MEMORY, _STORAGE)


class Lack(NamedTuple):
    """A resource of which a node has not enough left."""

    resource: str
    requested: int
    """CPUs in milli-CPU, memory and storage in bytes."""
    left: int


@lru_cache(maxsize=1 << 12)
def pod_requests(pod: PodShape) -> Amounts:
    """Return what a pod requests, by resource in the order in which it is checked (resourcehelper PodRequests).

    CPUs in milli-CPU, memory and storage in bytes, the overhead of the runtime class included.
    """
    found = dict(at_most(pod, _container_requests))
    if pod.pod_level is not None:
        found |= dict(pod.pod_level.memory)
        if pod.pod_level.milli_cpus is not None:
            found[_CPU] = pod.pod_level.milli_cpus
    for name, size in pod.overhead:
        found[name] = found.get(name, 0) + size
    found[_PODS] = 1
    first = [(name, found.pop(name, 0)) for name in _FIRST]
    return (*first, *sorted(found.items()))


def _container_requests(container: Container) -> Amounts:
    own = ((_CPU, container.milli_cpus), (_STORAGE, container.storage))
    return (*own, *container.memory, *container.devices)


def lacks(pod: PodShape, room: Room) -> tuple[Lack, ...]:
    """Return all that a node has not enough of, in the kubelet's order.

    An extended resource that a node has never had is lacking, as it is to the scheduler. The kubelet alone would pass
    it over (removeMissingExtendedResources), and run the pod without.
    """
    left = {_PODS: room.pods, _CPU: room.milli_cpus, _MEMORY: room.memory, _STORAGE: room.storage, **dict(room.others)}
    asked = ((name, size, left.get(name, 0)) for name, size in pod_requests(pod) if size > 0)
    return tuple(Lack(name, size, there) for name, size, there in asked if size > there)


def check_room(pod: PodShape, room: Room) -> None:
    """Raise Refusal for the first of what is lacking (predicateAdmitHandler.Admit)."""
    for lack in lacks(pod, room):
        message = f"Node didn't have enough resource: {lack.resource}, requested: {lack.requested}"
        raise Refusal(f"OutOf{lack.resource}", message, lack.resource)
