"""The nodes on which a pod may run by its selection and by node totals: kube-scheduler's filters, simplified.

Not supported, as in the pod runner: preemption, spreading, pod affinity, volumes, ports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_sandbox.podrunner.types import Amounts, RunnerNode, RunnerPod, Selection

Key = tuple[str, str]


class NodeTotals:
    """The free amounts of all nodes. It does no I/O."""

    def __init__(self) -> None:
        """Start without nodes."""
        self._nodes: dict[str, RunnerNode] = {}
        self._free: dict[str, Amounts] = {}
        self._held: dict[Key, tuple[str, Amounts]] = {}
        self._matching: dict[Selection, list[str]] = {}
        """Nodes by the selections of pods; cleared when a node changes its labels or taints."""

    @property
    def count(self) -> int:
        """Return the number of nodes."""
        return len(self._nodes)

    def set_node(self, node: RunnerNode) -> None:
        """Add or change a node."""
        name = node.metadata.name
        before = self._nodes.get(name)
        self._nodes[name] = node
        if before is None or (before.metadata.labels, before.spec) != (node.metadata.labels, node.spec):
            self._matching.clear()
        if before is None or before.status != node.status:
            free = node.allocatable()
            for holder, amounts in self._held.values():
                if holder == name:
                    _add(free, amounts, -1)
            self._free[name] = free

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        self._nodes.pop(name, None)
        self._free.pop(name, None)
        self._matching.clear()

    def hold(self, pod: RunnerPod, node: str) -> None:
        """Record that a pod is on a node or will be. Raises FieldError."""
        if pod.key not in self._held:
            amounts = pod.requests()
            self._held[pod.key] = node, amounts
            if node in self._free:
                _add(self._free[node], amounts, -1)

    def release(self, key: Key) -> bool:
        """Free the resources of a pod; return whether it held any."""
        node, amounts = self._held.pop(key, ("", {}))
        if node in self._free:
            _add(self._free[node], amounts, 1)
        return bool(node)

    def candidates(self, pod: RunnerPod) -> list[str]:
        """Return the nodes that a pod selects and that have enough capacity, in their order. Raises FieldError."""
        requests, selection = pod.requests(), pod.selection()
        return [name for name in self._selected(selection) if _fits(self._free.get(name, {}), requests)]

    def _selected(self, selection: Selection) -> Iterable[str]:
        pinned = selection.pinned()
        if pinned:
            node = self._nodes.get(pinned)
            return [pinned] if node is not None and selection.matches(node) else []
        if selection not in self._matching:
            self._matching[selection] = [name for name, node in self._nodes.items() if selection.matches(node)]
        return self._matching[selection]


def _fits(free: Amounts, requests: Amounts) -> bool:
    return all(free.get(name, 0) >= amount for name, amount in requests.items())


def _add(free: Amounts, amounts: Amounts, sign: int) -> None:
    for name, amount in amounts.items():
        free[name] = free.get(name, 0) + sign * amount
