"""A node according to its last report, and the resources on it that the queue's pods hold.

The report of the zonewise agent lists the holdings of each pod (zonewise_common.nrt.holdings). So each pod of the queue
in the report counts with what it really holds, and no pod is subtracted twice.

If the holdings are unknown, a pod counts twice rather than not at all: once in the report, and once as predicted. This
applies to pods in reports of other agents, to damaged holdings, and to two pods of a node with the same key.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.nrt.holdings import read_holdings
from zonewise_scheduler.admission.resource_names import is_memory
from zonewise_scheduler.nodes.assumed.exclusive_resources import admitted_holdings
from zonewise_scheduler.nodes.preemption.release import without_pods
from zonewise_scheduler.tas.zones.pod_allocation import Allocation, PodSetKey, allocation_between

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_common.nrt.holdings import Holdings
    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.pod import PodShape


class ReportedNode(NamedTuple):
    """A node according to its last report.

    Invariant: `state` with all `pods` released is `base`, and neither has more available than the kubelet can allocate.
    """

    base: NodeState | None
    """The node without the queue's pods; None: it has no report."""
    state: NodeState | None
    """The node with the queue's pods; None: it has no report."""
    pods: Mapping[PodSetKey, tuple[Allocation, ...]]
    """What each reported pod of the queue holds."""


NO_REPORT = ReportedNode(None, None, {})


def reported_node(
    state: NodeState, texts: Iterable[tuple[int, str]] | None, queue_pods: Mapping[str, PodSetKey | None]
) -> ReportedNode:
    """Return a reported node from its state, and the holdings of the queue's pods.

    `texts`: the texts of nrt.holdings by zone; None: unknown. `queue_pods`: pod sets by key of nrt.holdings; None: the
    pod has ended, so its kubelet has released its resources.
    """
    held = _read(texts)
    ended = [held.pop(key) for key, pod_set in queue_pods.items() if pod_set is None and key in held]
    if ended:
        state = without_pods(state, ended, held.values())
    base, pods = state, dict[PodSetKey, tuple[Allocation, ...]]()
    for key, pod_set in sorted(queue_pods.items()):
        if pod_set is not None and key in held:
            holdings = held.pop(key)
            before, base = base, without_pods(base, [holdings], held.values())
            pods[pod_set] = (*pods.get(pod_set, ()), _allocation(before, base, holdings))
    return ReportedNode(base, state, pods)


def is_admitted(kind: NodeKind, shape: PodShape, allocation: Allocation) -> bool:
    """Return whether a reported pod holds all its requests; a report may be written in the middle of its admission."""
    cpus, amounts = admitted_holdings(kind, shape)
    shown = Counter[str]()
    for row in allocation.memory:
        shown.update(dict(zip(kind.memory_types, row, strict=True)))
    for device, count in zip(kind.devices, allocation.devices, strict=True):
        shown[device.resource] += count
    return allocation.cpus.bit_count() >= cpus and all(shown[resource] >= amount for resource, amount in amounts)


def _read(texts: Iterable[tuple[int, str]] | None) -> dict[str, Holdings]:
    try:
        return {} if texts is None else read_holdings(texts)
    except ValueError:  # damaged: the reader of reports has reported it
        return {}


def _allocation(state: NodeState, without: NodeState, holdings: Holdings) -> Allocation:
    """Return a pod's holdings: the difference between the states after and before its end."""
    has_memory = state.memory_free != without.memory_free
    groups = {zones for resource, zones, _ in holdings.amounts if is_memory(resource) and has_memory}
    return allocation_between(without, state, groups)
