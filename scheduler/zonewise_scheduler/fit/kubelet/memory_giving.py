"""The Memory Manager's allocation (policy_static.go Allocate and what it calls)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.fit.kubelet.memory import MemoryView, narrowest
from zonewise_scheduler.fit.kubelet.refusal import unexpected
from zonewise_scheduler.fit.kubelet.zones import members
from zonewise_scheduler.fit.model.resources import MEMORY
from zonewise_scheduler.fit.model.verdict import MemoryShare

if TYPE_CHECKING:
    from zonewise_scheduler.fit.kubelet.books import Books
    from zonewise_scheduler.fit.kubelet.merge import Alignment
    from zonewise_scheduler.fit.model.node import NodeState
    from zonewise_scheduler.fit.model.pod import Amounts, Container

NOT_ENOUGH = "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
NOT_PREFERRED = "[memorymanager] failed to find the default preferred hint"
NOT_EXTENDED = "[memorymanager] failed to find NUMA nodes to extend the current topology hint"
NOT_EXTENDED_PREFERRED = "[memorymanager] failed to find the extended preferred hint"
VIOLATES = "[memorymanager] preferred hint violates NUMA node allocation"


def give_memory(books: Books, container: Container, requests: Amounts, alignment: Alignment) -> None:
    """Give a container its memory, bytes by type, from one set of zones; raise Refusal where there is none."""
    zones = choose_zones(books, requests, alignment)
    shares = [MemoryShare(name, zones, size) for name, size in requests]
    for name, size in requests:
        own = books.idle_memory.get((zones, name), 0)
        books.state = charged(books.state, zones, name, max(0, size - own))
    _pass_on(books, container, shares)
    books.memory[container.name] = shares


def choose_zones(books: Books, requests: Amounts, alignment: Alignment) -> int:
    """Return the zones to give from: those of the alignment, widened where they have not enough."""
    state, idle = books.state, books.idle_memory
    zones, preferred = alignment
    if zones is None:
        best = narrowest(state, requests, idle, 0)
        if best is None:
            raise unexpected(NOT_ENOUGH, MEMORY)
        if preferred and not best[1]:
            raise unexpected(NOT_PREFERRED, MEMORY)
        zones, preferred = best
    view = MemoryView(state, requests, idle)
    if not view.has_free(zones):
        best = narrowest(state, requests, idle, zones)
        if best is None:
            raise unexpected(NOT_EXTENDED, MEMORY)
        if preferred and not best[1]:
            raise unexpected(NOT_EXTENDED_PREFERRED, MEMORY)
        zones = best[0]
    # 1.31 does not look, and mixes the groups (kubernetes#128669)
    if state.kind.policies.release >= (1, 32) and view.violates(zones):
        raise unexpected(VIOLATES, MEMORY)
    return zones


def charged(state: NodeState, zones: int, name: str, size: int) -> NodeState:
    """Return the state with bytes taken from zones, the lowest first, which are a group now (updateMachineState)."""
    kind = state.kind
    column = kind.memory_types.index(name) if name in kind.memory_types else -1
    free, groups = list(state.memory_free), list(state.memory_groups)
    for zone in members(zones):
        place = kind.zones.index(zone)
        groups[place] = zones
        if column >= 0 and size:
            row = free[place]
            taken = min(row[column], size)
            size -= taken
            free[place] = (*row[:column], row[column] - taken, *row[column + 1 :])
    return state._replace(
        memory_free=tuple(free), memory_groups=tuple(groups), memory_assigned=state.memory_assigned | zones
    )


def _pass_on(books: Books, container: Container, shares: list[MemoryShare]) -> None:
    """Keep count of what ended init containers leave to those after them.

    updatePodReusableMemory, and updateInitContainersMemoryBlocks, which makes the blocks of the pod add up.
    """
    for name, zones, size in shares:
        idle = books.idle_memory.get((zones, name), 0)
        init = container.role == "init"
        books.idle_memory[zones, name] = max(idle, size) if init else max(0, idle - size)
        _shrink(books, container, name, zones, size)


def _shrink(books: Books, container: Container, name: str, zones: int, size: int) -> None:
    for earlier in books.pod.containers:
        if earlier is container or earlier.role == "app":
            return
        if earlier.role == "init":
            blocks = books.memory.get(earlier.name, [])
            for place, block in enumerate(blocks):
                if (block.type, block.zones) == (name, zones):
                    taken = min(block.size, size)
                    blocks[place] = block._replace(size=block.size - taken)
                    size -= taken
