"""The Topology Manager's two scopes, and its absence (pkg/kubelet/cm/topologymanager/scope_*.go).

Scope container aligns and gives container by container, each on what the one before it has left. Scope pod aligns once,
then gives container by container from the same zones. Policy none gives without any alignment. All three go through the
init containers first, and within one container give devices, then CPUs, then memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.fit.kubelet.asks import container_ask, pins_memory, pod_ask
from zonewise_scheduler.fit.kubelet.cpu_giving import give_cpus
from zonewise_scheduler.fit.kubelet.cpus import cpu_hints, given_whole
from zonewise_scheduler.fit.kubelet.device_giving import give_devices
from zonewise_scheduler.fit.kubelet.devices import device_hints, has_zones
from zonewise_scheduler.fit.kubelet.hints import Hints
from zonewise_scheduler.fit.kubelet.memory import memory_hints
from zonewise_scheduler.fit.kubelet.memory_giving import give_memory
from zonewise_scheduler.fit.kubelet.merge import ANYWHERE, Alignment, agreed, compromise
from zonewise_scheduler.fit.kubelet.pod_level import empty_pools, give_pod
from zonewise_scheduler.fit.kubelet.refusal import TOPOLOGY, Refusal
from zonewise_scheduler.fit.kubelet.zones import everywhere
from zonewise_scheduler.fit.model.resources import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Collection

    from zonewise_scheduler.fit.kubelet.books import Ask, Books
    from zonewise_scheduler.fit.model.pod import Container

MISALIGNED = "Resources cannot be allocated with Topology locality"
MISALIGNED_CONTAINER = "Pod Scope pod with pod-level resources failed admission with a container-level topology manager"
MISALIGNED_POD = "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"


class Opinion(NamedTuple):
    """What one resource says of the zones."""

    resource: str
    amount: int
    """CPUs, bytes or devices."""
    hints: Hints


def admit_containers(books: Books) -> None:
    """Give all containers of a pod what they ask for, as policy and scope say; raise Refusal where it cannot be."""
    kind = books.state.kind
    policies = kind.policies
    if policies.topology == "none":
        for container in books.pod.containers:
            _give(books, container, ANYWHERE)
        return
    if policies.scope == "pod":
        _admit_pod(books)
        return
    misaligned = MISALIGNED_CONTAINER if given_whole(books.pod, policies) else MISALIGNED
    for container in books.pod.containers:
        books.at = container.name
        _give(books, container, align(books, container_ask(books.pod, container, kind), misaligned))


def _admit_pod(books: Books) -> None:
    kind = books.state.kind
    ask = pod_ask(books.pod, kind)
    whole = given_whole(books.pod, kind.policies)
    if whole:
        empty = empty_pools(books.pod, kind.policies)
        give_pod(books, ask, align(books, ask, MISALIGNED_POD, empty), empty)
        return
    alignment = align(books, ask, MISALIGNED)
    for container in books.pod.containers:
        _give(books, container, alignment)


def align(books: Books, ask: Ask, misaligned: str, empty: Collection[str] = ()) -> Alignment:
    """Return where the policy puts what is asked for; raise Refusal, with the message, where that is nowhere."""
    kind = books.state.kind
    policy = kind.policies.topology
    zones = agreed(kind, [one.hints for one in opinions(books, ask, empty, wide=False)])
    if zones is not None:
        # policy_single_numa_node.go: all zones of the machine mean no preference
        return Alignment(None if policy == "single-numa-node" and zones == everywhere(kind) else zones, preferred=True)
    if policy != "best-effort":
        raise Refusal(TOPOLOGY, misaligned)
    return Alignment(compromise(kind, [one.hints for one in opinions(books, ask, empty, wide=True)]), preferred=False)


def opinions(books: Books, ask: Ask, empty: Collection[str] = (), *, wide: bool) -> list[Opinion]:
    """Return what each resource that cares for zones says of them: devices, CPUs, each type of memory.

    Those in empty say that nothing satisfies them.
    """
    state = books.state
    found: list[Opinion] = []
    for resource, count in ask.devices:
        if has_zones(state.kind, resource):
            books.doubt(resource)
            hints = device_hints(state, resource, count, books.idle_devices, wide=wide)
            found.append(Opinion(resource, count, hints))
    if ask.cpus:
        hints = Hints(()) if CPU in empty else cpu_hints(state, ask.cpus, books.idle_cpus, wide=wide)
        if hints is not None:
            found.append(Opinion(CPU, ask.cpus, hints))
    if ask.memory:
        hints = Hints(()) if MEMORY in empty else memory_hints(state, ask.memory, books.idle_memory, wide=wide)
        if hints is not None:
            found += [Opinion(name, size, hints) for name, size in ask.memory]
    return found


def _give(books: Books, container: Container, alignment: Alignment) -> None:
    """Allocate one container (scope.go allocateAlignedResources)."""
    books.at, books.zones = container.name, alignment.zones
    policies = books.state.kind.policies
    ask = container_ask(books.pod, container, books.state.kind)
    if container.devices:
        give_devices(books, container, alignment.zones)
    if ask.cpus:
        give_cpus(books, container, ask.cpus, alignment.zones)
    if ask.memory or _fails_without_memory(books, policies.release):
        give_memory(books, container, ask.memory, alignment)


def _fails_without_memory(books: Books, release: tuple[int, int]) -> bool:
    """Tell whether the Memory Manager allocates for a container that asks for none; 1.37 passes it over.

    Only a pod that is given whole can have one (policy_static.go Allocate).
    """
    policies = books.state.kind.policies
    return release < (1, 37) and given_whole(books.pod, policies) and pins_memory(books.pod, policies)
