"""The unbound pods, in the order in which a scheduling pass places them.

A pass places units: tuples of pods that are placed together or not at all. Usually a unit is one pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.extender.objects.pod_limits import may_be_aligned
from zonewise_scheduler.nodes.filters.anti_affinity import AntiAffinityIndex

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from zonewise_scheduler.extender.objects.scheduling_spec import SchedulingSpec
    from zonewise_scheduler.nodes.assumed.types import PendingPod
    from zonewise_scheduler.nodes.filters.anti_affinity import AntiAffinityTerm


FRESH = 1.0
"""Seconds for which a pod that kube-scheduler has not filtered yet counts in plans: it will soon be filtered."""
BURST_PAUSE = 0.05
"""Seconds without a new pod after which a burst of pods is over."""
MAX_BURST_WAIT = 0.25
"""Maximum seconds for which the first filter call of a pod waits for the rest of its burst."""
DELEGATION_LIFETIME = 600.0
"""Seconds for which a resource counts as delegated. The node may have lacked it only until we observed its plugin's
start. kube-scheduler tries a waiting pod again every five minutes."""
REQUEST_LIFETIME = 60.0
"""Seconds after which a filtered pod that was never observed counts as gone."""


class WaitingPod(NamedTuple):
    """An unbound pod."""

    pod: PendingPod
    spec: SchedulingSpec
    sequence: int
    """Sequence number in the order of observation, which orders pods that were created in the same second."""
    observed: float
    """Time when the pod was first observed, in seconds of the cache's clock."""


class PodUnit(NamedTuple):
    """Pods that are placed together or not at all; not empty."""

    pods: tuple[WaitingPod, ...]

    @property
    def rank(self) -> tuple[int, float, int]:
        """Return the sort key: higher priority first, then the older pod (pkg/scheduler queuesort PrioritySort)."""
        first = self.pods[0]
        return (-first.spec.priority, first.spec.created, first.sequence)


class _Delegation(NamedTuple):
    """An extended resource that kube-scheduler does not count on some nodes."""

    nodes: frozenset[str]
    until: float
    """Time from which on the resource no longer counts as delegated."""


class WaitingPods:
    """See the module. kube-scheduler has tried the requested pods; the other pods are only known to exist.

    kube-scheduler has tried a pod if it has called the filter for it. It makes no such call if its own filters reject
    every node. The pod's condition then shows the attempt, and counts if that scheduler has called the filter for any
    pod before.

    kube-scheduler does not count a delegated resource on nodes that lack it, since a DeviceClass provides it there
    (KEP-5004) or a profile ignores it. Only kube-scheduler can bind the pods that request such a resource.
    """

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}
        self._delegated: dict[str, _Delegation] = {}  # by resource
        self._requested: dict[str, float] = {}  # by UID: when kube-scheduler filtered it first
        self._calls: dict[str, float] = {}  # the same for pods whose first filter call waits
        self._withdrawn: set[str] = set()
        self._anti_affinity = AntiAffinityIndex()
        self._schedulers: set[str] = set()  # that call the filter
        self._last_arrival = 0.0
        self._sequence = 0
        self.version = 0
        """Number that changes with the set of pods, and with what determines whether a pass may bind them."""
        self._units: tuple[int, tuple[PodUnit, ...]] = -1, ()  # for a version

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> WaitingPod | None:
        """Return a pod, if present."""
        return self._pods.get(uid)

    def observe(self, pod: PendingPod, spec: SchedulingSpec, at: float) -> None:
        """Add an unbound pod, or update it."""
        old = self._pods.get(pod.uid)
        if old is not None and (old.pod, old.spec) == (pod, spec):
            return
        if old is None:
            self._sequence += 1
            self._last_arrival = at
        self._pods[pod.uid] = WaitingPod(
            pod, spec, self._sequence if old is None else old.sequence, at if old is None else old.observed
        )
        self.version += 1

    def remove(self, uid: str) -> None:
        """Remove a pod that is bound, assumed or gone, if present."""
        self._requested.pop(uid, None)
        self._calls.pop(uid, None)
        self._withdrawn.discard(uid)
        if self._pods.pop(uid, None) is not None:
            self.version += 1

    def request(self, uid: str, at: float) -> None:
        """Record that kube-scheduler has filtered a pod, which it may see earlier than the extender does."""
        self._calls.pop(uid, None)
        self._withdrawn.discard(uid)
        self._learn_scheduler(uid)
        if uid not in self._requested:
            self._requested[uid] = at
            self.version += 1

    def burst_delay(self, uid: str, at: float) -> float:
        """Return the seconds for which a pod's filter call should wait, since more pods of its burst may arrive."""
        if uid in self._requested:
            return 0.0
        self._learn_scheduler(uid)
        waiting = self._pods.get(uid)
        arrived = self._calls.setdefault(uid, at) if waiting is None else waiting.observed
        return min(max(self._last_arrival, arrived) + BURST_PAUSE, arrived + MAX_BURST_WAIT) - at

    def _learn_scheduler(self, uid: str) -> None:
        waiting = self._pods.get(uid)
        if waiting is not None:
            self.learn_scheduler(waiting.spec.scheduler)

    def learn_scheduler(self, name: str) -> None:
        """Record that a scheduler calls the filter."""
        if name not in self._schedulers:
            self._schedulers.add(name)
            self.version += 1

    @property
    def schedulers(self) -> Set[str]:
        """The names of the schedulers that have called the filter."""
        return self._schedulers

    def of_unknown_schedulers(self) -> list[PendingPod]:
        """Return the youngest pod of each scheduler that has tried pods but not called the filter.

        Pods that a scheduler may not bind yet, or that no kubelet aligns, do not count.
        """
        youngest: dict[str, WaitingPod] = {}
        for waiting in self._pods.values():
            spec = waiting.spec
            if spec.unschedulable and not spec.gated and may_be_aligned(waiting.pod.shape):
                other = youngest.setdefault(spec.scheduler, waiting)
                youngest[spec.scheduler] = max(other, waiting, key=lambda each: each.spec.created)
        return [waiting.pod for scheduler, waiting in youngest.items() if scheduler not in self._schedulers]

    def tried(self) -> Iterator[WaitingPod]:
        """Yield the pods that kube-scheduler has tried."""
        return filter(self._is_requested, self._pods.values())

    def is_tried(self, uid: str) -> bool:
        """Return whether kube-scheduler has tried a pod."""
        waiting = self._pods.get(uid)
        return waiting is not None and self._is_requested(waiting)

    def left_to_scheduler(self) -> Iterator[WaitingPod]:
        """Yield the pods that kube-scheduler has tried and that a pass may not bind, without members of gangs."""
        for waiting in self._pods.values():
            spec = waiting.spec
            is_single = spec.group is None and not spec.has_workload and not spec.gated
            if is_single and not self._is_exact(waiting) and self._is_requested(waiting):
                yield waiting

    def fresh(self, at: float) -> list[WaitingPod]:
        """Return the new pods that kube-scheduler will soon filter and that may then be bound."""
        recent = (pod for pod in reversed(self._pods.values()) if not self._is_requested(pod))
        pods: list[WaitingPod] = []
        for pod in recent:
            if pod.observed + FRESH <= at:
                break
            if pod.spec.scheduler in self._schedulers and may_be_aligned(pod.pod.shape) and self._is_exact(pod):
                pods.append(pod)
        return pods

    def expire(self, at: float) -> None:
        """Drop the filtered pods that were never observed, and old delegations."""
        for times in (self._requested, self._calls):
            for uid in [uid for uid, since in times.items() if since + REQUEST_LIFETIME <= at]:
                if uid not in self._pods:
                    del times[uid]
        for resource in [resource for resource, each in self._delegated.items() if each.until <= at]:
            del self._delegated[resource]
            self.version += 1

    def withdraw(self, uid: str) -> None:
        """Leave a pod to kube-scheduler until kube-scheduler filters it again."""
        self._requested.pop(uid, None)
        self._withdrawn.add(uid)
        self.version += 1

    # --- anti-affinity of any pod, bound or not

    def set_terms(self, uid: str, terms: tuple[AntiAffinityTerm, ...]) -> None:
        """Set the required anti-affinity of a pod; empty if it has none or is gone."""
        if self._anti_affinity.set_terms(uid, terms):
            self.version += 1

    def may_be_excluded(self, pod: WaitingPod) -> bool:
        """Return whether another pod's required anti-affinity may keep a pod away from some nodes."""
        return bool(self._anti_affinity) and self._anti_affinity.may_exclude(pod.pod.namespace, dict(pod.spec.labels))

    # --- resources

    def delegate(self, resource: str, nodes: frozenset[str], at: float) -> bool:
        """Record nodes that kube-scheduler has passed although they lack an extended resource of its pod.

        Return whether any of them is new.
        """
        known = self._delegated.get(resource)
        self.version += known is None
        before = known.nodes if known is not None else frozenset[str]()
        self._delegated[resource] = _Delegation(before | nodes, at + DELEGATION_LIFETIME)
        return not nodes <= before

    def delegated(self) -> dict[str, frozenset[str]]:
        """Return the delegated resources, with the nodes that lack them and that kube-scheduler has passed."""
        return {resource: each.nodes for resource, each in self._delegated.items()}

    def is_delegated(self, pod: WaitingPod) -> bool:
        """Return whether a pod requests a delegated resource."""
        scalar_resources = pod.spec.constraints.requests.scalar_resources
        return bool(self._delegated) and any(name in self._delegated for name, _ in scalar_resources)

    def is_exact(self, pod: WaitingPod) -> bool:
        """Return whether our own filters decide exactly about a pod by itself."""
        return pod.spec.is_exact and not self.may_be_excluded(pod) and not self.is_delegated(pod)

    # --- units

    def is_bindable(self, pod: WaitingPod) -> bool:
        """Return whether a pod may be bound without kube-scheduler.

        kube-scheduler must have tried the pod, so that a profile is responsible for it, and our own filters must decide
        exactly.
        """
        return self._is_requested(pod) and self._is_exact(pod)

    def _is_requested(self, pod: WaitingPod) -> bool:
        uid, spec = pod.pod.uid, pod.spec
        if uid in self._requested:
            return True
        return spec.unschedulable and spec.scheduler in self._schedulers and uid not in self._withdrawn

    def _is_exact(self, pod: WaitingPod) -> bool:
        return not pod.spec.gated and self.is_exact(pod)

    def units(self) -> tuple[PodUnit, ...]:
        """Return the units that a pass may bind, best rank first: kube-scheduler has tried each of their pods."""
        if self._units[0] != self.version:
            units = (PodUnit((pod,)) for pod in self._pods.values() if self.is_bindable(pod))
            self._units = self.version, tuple(sorted(units, key=_rank))
        return self._units[1]


def _rank(unit: PodUnit) -> tuple[int, float, int]:
    return unit.rank
