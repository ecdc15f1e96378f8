"""Short forms of explanations of rejections on small nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.fit_nodes import GPU, NIC, STATIC, node
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.explain.rejection import explain_rejection

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape

AMD = "amd.com/gpu"
"""A resource name that sorts before "cpu"."""


def explained(state: NodeState, shape: PodShape) -> str:
    return explain_rejection(state, shape, admit(state, shape))


def four_of_eight(topology: str = "single-numa-node", *, full_cores: bool = False) -> NodeState:
    """Return two zones of 8 CPUs each, half of them free."""
    devices = {GPU: {1: 2, 2: 1}, NIC: {2: 1}}
    state = node(2, 4, devices=devices, topology=topology, full_cores=full_cores, **STATIC)
    return state._replace(free_cpus=0b1111 | 0b1111 << 8)
