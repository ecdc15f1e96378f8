"""Selects a node for each pod, in constant time on average, whatever the number of nodes.

Pods with the same requests and the same selection form a class. A class has a queue of the nodes that may have capacity
for its pods:

| event | action |
|---|---|
| a pod of the class arrives | select the first node of the queue with enough capacity; drop the nodes before it |
| no node has enough capacity | the pod waits in the class |
| a node is added, changes, or is freed in part | append it to the queue of each class that selects it; place pods |

The cost of dropping a node is thus amortized by the event that appended it. Classes of pods that name their node
contain only that node, and are looked up by its name.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_sandbox.podrunner.types import Amounts, RunnerNode, RunnerPod, Selection

Key = tuple[str, str]
_ClassKey = tuple[frozenset[tuple[str, int]], "Selection"]
_MAX_IDLE = 500
"""Maximum number of classes without waiting pods that are kept; creating a class requires a check of every node."""


class _PodClass:
    def __init__(self, requests: Amounts, selection: Selection) -> None:
        self.requests = requests
        self.selection = selection
        self.nodes: deque[str] = deque()
        self.queued: set[str] = set()
        self.waiting: dict[Key, RunnerPod] = {}

    def append(self, node: RunnerNode) -> None:
        name = node.metadata.name
        if name not in self.queued and self.selection.matches(node):
            self.queued.add(name)
            self.nodes.append(name)

    def drop_first(self) -> None:
        self.queued.discard(self.nodes.popleft())


class Binder:
    """The free capacity of all nodes, and the pods that wait for capacity. It does no I/O."""

    def __init__(self) -> None:
        """Create a binder without nodes."""
        self._nodes: dict[str, RunnerNode] = {}
        self._free: dict[str, Amounts] = {}
        self._held: dict[Key, tuple[str, Amounts]] = {}
        self._on_node: dict[str, set[Key]] = {}
        self._classes: dict[str, dict[_ClassKey, _PodClass]] = {"": {}}
        """Classes by the node that their pods name; "" holds the classes of all other pods."""
        self._class_of: dict[Key, _PodClass] = {}

    @property
    def waiting(self) -> int:
        """Return the number of pods that wait for a node."""
        return len(self._class_of)

    def free(self, node: str) -> Amounts:
        """Return the free amounts of a node; they are negative if other binders have bound too much."""
        return self._free.get(node, {})

    def set_node(self, node: RunnerNode) -> list[tuple[RunnerPod, str]]:
        """Add or change a node; return the waiting pods that now fit, with its name."""
        name = node.metadata.name
        free = node.allocatable()
        for key in self._on_node.get(name, ()):
            _subtract(free, self._held[key][1])
        self._nodes[name], self._free[name] = node, free
        for pod_class in self._classes_of(name):
            if name in pod_class.queued and not pod_class.selection.matches(node):
                pod_class.nodes.remove(name)
                pod_class.queued.discard(name)
        return list(self._offer(name))

    def remove_node(self, name: str) -> None:
        """Remove a node; the pods on it remain assigned in case it returns."""
        self._nodes.pop(name, None)
        self._free.pop(name, None)

    def place(self, pod: RunnerPod) -> str:
        """Return the node for a new pod, and allocate its requests there; "" if it must wait. Raises FieldError."""
        self.forget(pod.key)
        pod_class = self._class_for(pod)
        node = self._first_that_fits(pod_class)
        if node:
            self.hold(pod, node)
        else:
            pod_class.waiting[pod.key] = pod
            self._class_of[pod.key] = pod_class
        return node

    def hold(self, pod: RunnerPod, node: str) -> None:
        """Record that a pod is on a node, even if another binder has bound it."""
        self.forget(pod.key)
        if pod.key in self._held:
            return
        requests = pod.requests()
        self._held[pod.key] = node, requests
        self._on_node.setdefault(node, set()).add(pod.key)
        if node in self._free:
            _subtract(self._free[node], requests)

    def release(self, key: Key) -> list[tuple[RunnerPod, str]]:
        """Free the resources of a pod; return the waiting pods that now fit, with their nodes."""
        self.forget(key)
        held = self._held.pop(key, None)
        if held is None:
            return []
        node, requests = held
        self._on_node[node].discard(key)
        if node not in self._free:
            return []
        free = self._free[node]
        for name, amount in requests.items():
            free[name] = free.get(name, 0) + amount
        return list(self._offer(node))

    def forget(self, key: Key) -> None:
        """Record that a pod no longer waits."""
        pod_class = self._class_of.pop(key, None)
        if pod_class is not None:
            del pod_class.waiting[key]

    def _class_for(self, pod: RunnerPod) -> _PodClass:
        requests, selection = pod.requests(), pod.selection()
        key, pinned = (frozenset(requests.items()), selection), selection.pinned()
        classes = self._classes.setdefault(pinned, {})
        if key not in classes:
            if pinned or len(classes) >= _MAX_IDLE:
                classes = self._classes[pinned] = {each: item for each, item in classes.items() if item.waiting}
            classes[key] = _PodClass(requests, selection)
            named = (self._nodes.get(pinned),) if pinned else self._nodes.values()
            for node in named:
                if node is not None:
                    classes[key].append(node)
        return classes[key]

    def _classes_of(self, node: str) -> list[_PodClass]:
        """Return the classes whose pods may select a node."""
        return [*self._classes[""].values(), *self._classes.get(node, {}).values()]

    def _first_that_fits(self, pod_class: _PodClass) -> str:
        while pod_class.nodes:
            free = self._free.get(pod_class.nodes[0])
            if free is not None and all(free.get(name, 0) >= amount for name, amount in pod_class.requests.items()):
                return pod_class.nodes[0]
            pod_class.drop_first()
        return ""

    def _offer(self, name: str) -> Iterator[tuple[RunnerPod, str]]:
        """Try a node with new free capacity for all classes, and yield the waiting pods that get it."""
        for pod_class in self._classes_of(name):
            pod_class.append(self._nodes[name])
            while pod_class.waiting and (node := self._first_that_fits(pod_class)):
                pod = next(iter(pod_class.waiting.values()))
                self.hold(pod, node)
                yield pod, node


def _subtract(free: Amounts, requests: Amounts) -> None:
    for name, amount in requests.items():
        free[name] = free.get(name, 0) - amount
