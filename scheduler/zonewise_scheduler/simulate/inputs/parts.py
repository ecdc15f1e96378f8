"""Nodes with what stands for them in quotas, and scenarios of jobs on them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.fit.model.resources import PODS
from zonewise_scheduler.queue.quota.model.amounts import UNLIMITED, plus
from zonewise_scheduler.queue.quota.model.queues import ClusterQueue
from zonewise_scheduler.queue.quota.model.quotas import FlavorQuotas, Quota, group
from zonewise_scheduler.queue.quota.model.workload import DEFAULTS
from zonewise_scheduler.simulate.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.fit.model.node import NodeState
    from zonewise_scheduler.fit.nodes.table import NodeTable
    from zonewise_scheduler.queue.quota.model.queues import Cohort, ResourceFlavor
    from zonewise_scheduler.queue.quota.model.workload import Settings
    from zonewise_scheduler.simulate.scenario import Arrival

QUEUE = "all"
"""The name of the one ClusterQueue where none is given."""
COHORT = "all"
"""The name of the cohort of queues that jobs name and nobody describes."""

_ALL = Fraction(1)


class Fleet(NamedTuple):
    """Nodes."""

    name: str
    nodes: NodeTable
    topologies: Mapping[str, tuple[str, ...]]
    flavors: tuple[ResourceFlavor, ...]
    """One for each kind of nodes, in the order in which they are tried."""
    capacity: Mapping[str, Mapping[str, int]]
    """What the nodes of a flavor have, by resource: milli-CPU, bytes, counts, UNLIMITED where nobody tells; without the
    pods that they may have."""
    states: Mapping[str, NodeState] = {}
    """By node: its zones when nothing runs; those of which nothing is known are left out."""
    problems: tuple[str, ...] = ()

    @property
    def whole(self) -> dict[str, int]:
        """Return what all nodes have, by resource."""
        found: dict[str, int] = {}
        for amounts in self.capacity.values():
            for resource, amount in amounts.items():
                found[resource] = plus(found.get(resource, 0), amount)
        return found


class Queues(NamedTuple):
    """ClusterQueues and Cohorts."""

    queues: tuple[ClusterQueue, ...]
    cohorts: tuple[Cohort, ...] = ()


def queue_of(fleet: Fleet, name: str = QUEUE, share: Fraction = _ALL, cohort: str = "") -> ClusterQueue:
    """Return a queue whose quota is a share of all nodes, rounded down."""
    resources = fleet.whole
    flavors = [
        FlavorQuotas(
            one.name,
            tuple((name, Quota(_part_of(fleet.capacity[one.name].get(name, 0), share))) for name in resources),
        )
        for one in fleet.flavors
    ]
    return ClusterQueue(name, (group(*flavors),) if resources else (), cohort)


def queues_named(fleet: Fleet, names: Iterable[str]) -> Queues:
    """Return queues with equal shares of all nodes, which lend to each other; without names the one of all."""
    distinct = list(dict.fromkeys(names)) or [QUEUE]
    cohort = COHORT if len(distinct) > 1 else ""
    return Queues(tuple(queue_of(fleet, name, Fraction(1, len(distinct)), cohort) for name in distinct))


def with_pods(queue: ClusterQueue) -> ClusterQueue:
    """Return a queue with a quota of pods that is never used up."""
    unlimited = (PODS, Quota(UNLIMITED))
    groups = (
        group(*(flavor._replace(quotas=(*flavor.quotas, unlimited)) for flavor in one.flavors)) for one in queue.groups
    )
    return queue._replace(groups=tuple(groups))


def on_fleet(
    name: str,
    fleet: Fleet,
    arrivals: list[Arrival],
    queues: Queues,
    problems: Iterable[str] = (),
    settings: Settings = DEFAULTS,
) -> Scenario:
    """Return a scenario of jobs on all nodes of a fleet."""
    return Scenario(
        name,
        arrivals,
        queues.queues,
        queues.cohorts,
        fleet.flavors,
        fleet.topologies,
        fleet.nodes,
        fleet.states,
        settings,
        (*fleet.problems, *problems),
    )


def _part_of(amount: int, share: Fraction) -> int:
    return amount if amount == UNLIMITED else int(amount * share)
