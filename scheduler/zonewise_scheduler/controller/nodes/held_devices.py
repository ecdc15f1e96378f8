"""Which devices ResourceClaims hold, and under which resources the pods on a node count these devices already.

The planner subtracts the requests of pods from a node, and kube-scheduler allocates devices that no claim holds. So the
allocatable of a node is the number of its free devices, plus those that its pods hold and whose requests count:

| pod of an allocated claim | devices of the claim | added on its node |
|---|---|---|
| bound and active | not free | the devices, under each resource by which the pod counts them |
| not bound yet | free: the planner counts the request of a placed pod | nothing |
| ended | free: the claim is deleted in a moment, and a reservation for the end of the pod must not be lost | nothing |
| none: pods share it | not free | nothing |

A pod counts the devices of its claim by the resource of their DeviceClass, or by the extended resource that the class
provides. Outside the queue it counts only extended resources. A claim that users have made counts in no request.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set

    from zonewise_scheduler.controller.nodes.node_tracker import NodeTracker
    from zonewise_scheduler.nodes.devices.allocated_claims import AllocatedClaim
    from zonewise_scheduler.nodes.devices.provided_devices import DeviceResource, PoolKey

K = TypeVar("K")
_Key = tuple[str, str]
"""Namespace and name."""


class _Effect(NamedTuple):
    """How a claim counts."""

    is_held: bool = False
    """Whether its devices are not free."""
    node: str = ""
    """Node on which its devices count in a request; "": there is none."""
    counted: tuple[tuple[str, int], ...] = ()
    """Resources with the number of these devices."""


_NO_EFFECT = _Effect()


class HeldDevices:
    """The allocated claims. Not safe for concurrent use by several threads."""

    def __init__(self, tracker: NodeTracker) -> None:
        self._tracker = tracker
        self._claims: dict[_Key, AllocatedClaim] = {}
        self._effects: dict[_Key, _Effect] = {}
        self._by_pod: dict[_Key, tuple[_Key, ...]] = {}
        self._changed: dict[_Key, AllocatedClaim | None] = {}
        """Claims whose effect may have changed, each as it was when its effect was determined."""
        self.held: dict[PoolKey, Counter[str]] = {}
        """The devices that claims hold, by pool; read-only."""
        self._counted: dict[str, Counter[str]] = {}
        """Number of devices by resource that the pods on a node hold and count."""

    def counted(self, node: str) -> Mapping[str, int]:
        """Return the number of devices by resource that the pods on a node hold and count."""
        return self._counted.get(node, {})

    def observe_claim(self, namespace: str, name: str, claim: AllocatedClaim | None) -> None:
        """Record a claim; None: it was deleted."""
        key = namespace, name
        old = self._claims.pop(key, None)
        if old is not None:
            self._changed.setdefault(key, old)
            self._index(key, old.pod, ())
        if claim is not None and claim.devices:
            self._changed.setdefault(key, None)
            self._claims[key] = claim
            self._index(key, claim.pod, (key,))

    def _index(self, key: _Key, pod: str, keys: tuple[_Key, ...]) -> None:
        """Replace a claim among those of its pod by `keys`."""
        owner = key[0], pod
        claims = (*(each for each in self._by_pod.get(owner, ()) if each != key), *keys)
        if claims and pod:
            self._by_pod[owner] = claims
        else:
            self._by_pod.pop(owner, None)

    def mark_pod(self, namespace: str, name: str) -> None:
        """Record that a pod may have changed."""
        self._mark(self._by_pod.get((namespace, name), ()))

    def mark_all(self) -> None:
        """Record that any claim may have another effect."""
        self._mark(self._claims)

    def _mark(self, keys: Iterable[_Key]) -> None:
        for key in keys:
            self._changed.setdefault(key, self._claims[key])

    def update(self, resources: Iterable[DeviceResource]) -> tuple[set[PoolKey], set[str]]:
        """Determine the effects of changed claims; return the pools and the nodes whose devices may have changed."""
        pools: set[PoolKey] = set()
        nodes: set[str] = set()
        if not self._changed:
            return pools, nodes
        names = {each.name for each in resources}
        for key, before in self._changed.items():
            old, claim = self._effects.pop(key, _NO_EFFECT), self._claims.get(key)
            new = _NO_EFFECT if claim is None else self._effect(claim, names)
            if new is not _NO_EFFECT:
                self._effects[key] = new
            if (before, old) == (claim, new):
                continue
            for each, effect, sign in ((before, old, -1), (claim, new, 1)):
                if each is not None:
                    self._apply(each, effect, sign)
                    pools |= {device.pool for device in each.devices}
                    nodes |= {effect.node} - {""}
        self._changed.clear()
        return pools, nodes

    def _effect(self, claim: AllocatedClaim, names: Set[str]) -> _Effect:
        """Return the effect of a claim; `names`: the resources of DeviceClasses."""
        if not claim.pod:
            return _Effect(True)
        pod = self._tracker.find_pod(claim.namespace, claim.pod)
        if pod is None or not pod.node:
            return _NO_EFFECT
        amounts = self._tracker.counted_amounts(pod)
        if claim.is_extended:
            counted = {name: amount for name, amount in amounts.items() if name in names}
        else:
            counted = Counter(device.resource for device in claim.devices if device.resource in amounts)
        return _Effect(True, pod.node, tuple(sorted(counted.items())))

    def _apply(self, claim: AllocatedClaim, effect: _Effect, sign: int) -> None:
        """Add the effect of a claim, or remove it."""
        if effect.is_held:
            for device in claim.devices:
                _add(self.held, device.pool, device.name, sign)
        for name, count in effect.counted:
            _add(self._counted, effect.node, name, sign * count)


def _add(counters: dict[K, Counter[str]], key: K, name: str, count: int) -> None:
    """Add to an entry of a counter, and drop empty entries."""
    counter = counters.setdefault(key, Counter())
    counter[name] += count
    if not counter[name]:
        del counter[name]
    if not counter:
        del counters[key]
