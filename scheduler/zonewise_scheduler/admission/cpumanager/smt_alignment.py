"""Whole cores only: full-pcpus-only (policy_static.go enforceSMTAlignment)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState

_TELLS_OF_NONE = (1, 32)
"""The first release that says that no core is available; an older one then blames the request."""


def smt_alignment_error(state: NodeState, count: int) -> str | None:
    """Return the kubelet's message of an SMTAlignmentError where a request is refused by full-pcpus-only; else None.

    The request must be a multiple of the CPUs per core, and no more than what is free without the siblings of reserved
    CPUs. CPUs that could be reused of init containers do not count as free, nor need the free ones be whole cores.
    """
    policies, topology = state.kind.policies, state.kind.cpus
    threads = topology.cpus_per_core
    if not (policies.full_cores and policies.cpu == "static" and threads):
        return None
    available = (state.free_cpus & ~topology.reserved_cores).bit_count()
    if count % threads or (count > available == 0 and policies.release < _TELLS_OF_NONE):
        return f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = {threads}"
    if count > available:
        return (
            "SMT Alignment Error: not enough free physical CPUs: "
            f"available physical CPUs = {available}, requested CPUs = {count}, CPUs per core = {threads}"
        )
    return None
