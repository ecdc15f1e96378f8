"""The CPU Manager's allocation to one container (pkg/kubelet/cm/cpumanager/policy_static.go Allocate)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.fit.kubelet.cpus import CpuShortage, check_cores, take_cpus
from zonewise_scheduler.fit.kubelet.refusal import CORES, Refusal, unexpected
from zonewise_scheduler.fit.model.resources import CPU

if TYPE_CHECKING:
    from zonewise_scheduler.fit.kubelet.books import Books
    from zonewise_scheduler.fit.model.node import NodeState
    from zonewise_scheduler.fit.model.pod import Container


def give_cpus(books: Books, container: Container, count: int, zones: int | None) -> None:
    """Give a container a count of exclusive CPUs, from zones first where they are said; raise Refusal.

    Those of ended init containers may be among them; those of a sidecar stay its own (updateCPUsToReuse).
    """
    check_alignment(books.state, count)
    try:
        cpus = take_cpus(books.state, count, zones, books.idle_cpus)
    except CpuShortage as shortage:
        raise unexpected(str(shortage), CPU) from None
    books.cpus[container.name] = cpus
    books.state = books.state._replace(free_cpus=books.state.free_cpus & ~cpus)
    books.idle_cpus = books.idle_cpus | cpus if container.role == "init" else books.idle_cpus & ~cpus


def check_alignment(state: NodeState, count: int) -> None:
    """Raise Refusal where whole cores are wanted and there are not enough (enforceSMTAlignment)."""
    message = check_cores(state, count)
    if message is not None:
        raise Refusal(CORES, message, CPU)
