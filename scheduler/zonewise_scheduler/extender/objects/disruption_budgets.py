"""PodDisruptionBudgets: the pods that each selects, and the number of pods that may still be disrupted.

The disruption controller publishes the number (status.disruptionsAllowed). It learns of an eviction a moment later. The
extender therefore counts its own evictions until the number decreases or a time limit is reached. An API server that
does not serve the kind has no budgets. If the extender may not read them, they are unknown, so no pod may be evicted.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from zonewise_common.k8s.fields import FieldError, object_in, string_in, string_map_in
from zonewise_common.k8s.labels import Requirement, read_requirements, selects
from zonewise_scheduler.extender.objects.served import Served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zonewise_scheduler.nodes.preemption.types import Budgets

EVICTION_COUNTS = 30.0
"""Maximum seconds for which one of the extender's own evictions counts."""


class DisruptionBudget(NamedTuple):
    """One PodDisruptionBudget."""

    namespace: str
    name: str
    selector: tuple[Requirement, ...] | None
    """None if there is no selector: the budget then selects no pod."""
    allowed: int
    disrupted: frozenset[str]
    """Names of pods whose eviction the API server has granted already; `allowed` already counts them."""

    @property
    def key(self) -> str:
        """Return namespace/name."""
        return f"{self.namespace}/{self.name}"


def decode_disruption_budget(raw: msgspec.Raw) -> DisruptionBudget:
    """Decode a policy/v1 PodDisruptionBudget. Raises msgspec.DecodeError and FieldError.

    For kube-scheduler an empty selector selects no pod (filterPodsWithPDBViolation); for the API it selects all pods of
    the namespace. Here it selects all pods, so the budget is respected.
    """
    budget = _OBJECT.decode(raw)
    metadata, spec, status = (object_in(budget, name, "") for name in ("metadata", "spec", "status"))
    selector: tuple[Requirement, ...] | None = None
    if spec.get("selector") is not None:
        labels = object_in(spec, "selector", "spec.")
        selector = (
            *(
                Requirement(key, "In", (value,))
                for key, value in string_map_in(labels, "matchLabels", "spec.selector.")
            ),
            *read_requirements(labels, "matchExpressions", "spec.selector."),
        )
        if not all(requirement.is_valid() for requirement in selector):
            raise FieldError("spec.selector", "not a selector")
    allowed = status.get("disruptionsAllowed")
    return DisruptionBudget(
        string_in(metadata, "namespace", "metadata."),
        string_in(metadata, "name", "metadata."),
        selector,
        allowed if isinstance(allowed, int) else 0,
        frozenset(object_in(status, "disruptedPods", "status.")),
    )


class DisruptionBudgets:
    """All budgets; any thread may use it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._budgets: dict[str, dict[str, DisruptionBudget]] = {}  # by namespace and key
        self._evictions: dict[str, list[float]] = {}  # by key: when each of our evictions ceases to count, ascending
        self._served = Served.UNKNOWN

    @property
    def are_known(self) -> bool:
        """Return whether all budgets are known."""
        return self._served in {Served.YES, Served.NO}

    @property
    def are_forbidden(self) -> bool:
        """Return whether the extender may not read budgets."""
        return self._served is Served.FORBIDDEN

    def set_served(self, served: Served) -> None:
        """Record whether the API server serves budgets; drop all if it does not serve them or denies access."""
        with self._lock:
            self._served = served
            if served is not Served.YES:
                self._budgets.clear()

    def update(self, old: DisruptionBudget | None, new: DisruptionBudget | None) -> None:
        """Add, update or remove a budget."""
        with self._lock:
            if old is not None:
                self._budgets.get(old.namespace, {}).pop(old.key, None)
            if new is None:
                return
            self._budgets.setdefault(new.namespace, {})[new.key] = new
            if old is not None and new.allowed < old.allowed and new.key in self._evictions:
                del self._evictions[new.key][: old.allowed - new.allowed]

    def of_pod(self, namespace: str, name: str, labels: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Return the budgets that select a pod and are charged one disruption if the pod ends."""
        with self._lock:
            budgets = list(self._budgets.get(namespace, {}).values())
        if not budgets:
            return ()
        by_key = dict(labels)
        return tuple(
            budget.key
            for budget in budgets
            if budget.selector is not None and name not in budget.disrupted and selects(budget.selector, by_key)
        )

    def allowed(self) -> Budgets:
        """Return how many disruptions each budget still allows."""
        with self._lock:
            now = self._clock()
            counts: dict[str, int] = {}
            for budgets in self._budgets.values():
                for key, budget in budgets.items():
                    pending = sum(end > now for end in self._evictions.get(key, ()))
                    counts[key] = max(0, budget.allowed - pending)
            return counts

    def record_eviction(self, budgets: Iterable[str]) -> None:
        """Count the eviction of a pod for these budgets."""
        with self._lock:
            now = self._clock()
            for key in budgets:
                ends = [end for end in self._evictions.get(key, ()) if end > now]
                self._evictions[key] = [*ends, now + EVICTION_COUNTS]


_OBJECT: msgspec.json.Decoder[Mapping[str, Any]] = msgspec.json.Decoder(dict[str, Any])
