"""What flavors a workload gets, or why not."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from zonewise_scheduler.queue.quota.flavors.modes import Mode
from zonewise_scheduler.queue.quota.model.quotas import FlavorResource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.queue.quota.model.workload import Amounts, Delayed, Usage
    from zonewise_scheduler.queue.quota.places import Wish
    from zonewise_scheduler.queue.quota.preemption.targets import Possibility

Why = Literal["", "InUse", "TopologyPlacementFailed", "WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor"]
"""What stands in the way, from the least to the most severe; the last four are reasons of the condition QuotaReserved
(workload_types.go)."""

_SEVERITY: dict[Why, int] = {
    "": 0, "InUse": 0, "TopologyPlacementFailed": 1, "WaitingForQuota": 2, "ExceedsMaxQuota": 3, "NoMatchingFlavor": 4,
}  # fmt: skip


class Hindrance(NamedTuple):
    """What stands in the way of one flavor."""

    why: Why
    flavor: str = ""
    """"": of all."""
    resource: str = ""
    """"": of all."""
    missing: int = 0
    """How much more quota it would take, as an amount; 0 where it is not that."""
    detail: str = ""


class FlavorChoice(NamedTuple):
    """The flavor of a resource."""

    name: str
    mode: Mode
    borrowing: int = 0
    """See Grade."""
    tried: int = -1
    """The place in the scan where it ended, so that the next goes on behind it; -1: at the end, it begins again."""


class Attempt(NamedTuple):
    """What the scan found of one flavor."""

    flavor: str
    mode: Mode
    borrowing: int = 0
    possibility: Possibility | None = None
    hindrances: tuple[Hindrance, ...] = ()

    @property
    def why(self) -> Why:
        """The most severe of its hindrances."""
        return most_severe(one.why for one in self.hindrances)


@dataclass(frozen=True)
class PodSetAssignment:
    """The flavors of a pod set."""

    name: str
    pods: int
    requests: Amounts
    """Of all its pods."""
    flavors: Mapping[str, FlavorChoice] = field(default_factory=dict[str, FlavorChoice])
    """By resource."""
    hindrances: tuple[Hindrance, ...] = ()
    error: str = ""
    """Why there is no telling where its pods are to be placed."""
    attempts: tuple[Attempt, ...] = ()
    place: object | None = None
    """Where its pods go; None where that is not decided here."""
    delayed: Delayed = ""

    @cached_property
    def mode(self) -> Mode:
        """The worst of its resources'.

        By a preference for preemption over borrowing, a flavor counts as one to be had where one resource of it has to
        be borrowed and for another somebody has to give way. Kueue takes the pod set for one that fits at once, and
        then finds in every cycle that it does not, or starts it while its victims run. Here these are told to go.
        """
        if self.error or (self.hindrances and not self.flavors):
            return Mode.NO_FIT
        return min((one.mode for one in self.flavors.values()), default=Mode.FIT)


class Progress(NamedTuple):
    """Where the scan of flavors has come to, from one cycle to the next."""

    tried: Mapping[str, Mapping[str, int]]
    """By pod set, by resource: FlavorChoice.tried."""
    cycle: int = 0
    """The number of the cycle that it is of."""

    @property
    def pending(self) -> bool:
        """Tell whether there are flavors that were not tried yet."""
        return any(place != -1 for one in self.tried.values() for place in one.values())

    def next(self, pod_set: str, resource: str) -> int:
        """Return the place of the first flavor to try."""
        return self.tried.get(pod_set, {}).get(resource, -1) + 1


START = Progress({})


@dataclass(frozen=True)
class Assignment:
    """The flavors of a workload; of one that does not fit, of the pod sets up to the first that does not."""

    pod_sets: tuple[PodSetAssignment, ...]
    usage: Usage
    """What it would use, beyond what a workload that it replaces does."""
    why: Why = ""
    """The reason that is told, where it does not fit."""
    wishes: Mapping[str, Sequence[Wish]] = field(default_factory=dict[str, "Sequence[Wish]"])
    """What of it is to be placed in topologies, by flavor."""

    @cached_property
    def mode(self) -> Mode:
        """The worst of its pod sets'."""
        return min((one.mode for one in self.pod_sets), default=Mode.NO_FIT)

    @property
    def is_placed(self) -> bool:
        """Tell whether places were found for some of its pods."""
        return any(one.place is not None for one in self.pod_sets)

    @property
    def borrowing(self) -> int:
        """From how far it borrows: see Grade."""
        return max((one.borrowing for pods in self.pod_sets for one in pods.flavors.values()), default=0)

    @property
    def needs(self) -> Usage:
        """The usage without what is nothing."""
        return {key: amount for key, amount in self.usage.items() if amount}

    @property
    def contested(self) -> frozenset[FlavorResource]:
        """What others would have to give way from."""
        return frozenset(
            FlavorResource(one.name, resource)
            for pods in self.pod_sets
            for resource, one in pods.flavors.items()
            if one.mode == Mode.PREEMPT
        )

    @property
    def tried(self) -> Mapping[str, Mapping[str, int]]:
        """What the Progress of the next scan is made from."""
        return {pods.name: {resource: one.tried for resource, one in pods.flavors.items()} for pods in self.pod_sets}


def most_severe(reasons: Iterable[Why]) -> Why:
    """Return the most severe; "" where there is none."""
    worst = sorted(reasons, key=_SEVERITY.__getitem__)[-1:]
    return worst[0] if worst and _SEVERITY[worst[0]] else ""


def least_severe(reasons: Iterable[Why]) -> Why:
    """Return the least severe; "" where there is none."""
    mildest = sorted(reasons, key=_SEVERITY.__getitem__)[:1]
    return mildest[0] if mildest else ""
