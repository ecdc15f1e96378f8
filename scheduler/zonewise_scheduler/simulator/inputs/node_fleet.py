"""Nodes with what stands for them in quotas, and scenarios of jobs on them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.resource_names import PODS
from zonewise_scheduler.quota.api.amount import UNLIMITED, plus
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.queue_types import ClusterQueue
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.simulator.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.queue_types import Cohort, ResourceFlavor
    from zonewise_scheduler.simulator.scenario import Arrival

DEFAULT_QUEUE = "all"
"""The name of the one ClusterQueue where none is given."""
DEFAULT_COHORT = "all"
"""The name of the cohort of queues that jobs name and nobody describes."""

_ALL = Fraction(1)


class Fleet(NamedTuple):
    """Nodes."""

    name: str
    nodes: NodeInfoTable
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
    def total_capacity(self) -> dict[str, int]:
        """Return what all nodes have, by resource."""
        found: dict[str, int] = {}
        for amounts in self.capacity.values():
            for resource, amount in amounts.items():
                found[resource] = plus(found.get(resource, 0), amount)
        return found


class QueueSet(NamedTuple):
    """ClusterQueues and Cohorts."""

    queues: tuple[ClusterQueue, ...]
    cohorts: tuple[Cohort, ...] = ()


def build_queue(fleet: Fleet, name: str = DEFAULT_QUEUE, share: Fraction = _ALL, cohort: str = "") -> ClusterQueue:
    """Return a queue whose quota is a share of all nodes, rounded down."""
    resources = fleet.total_capacity
    flavors = [
        FlavorQuotas(
            one.name,
            tuple((name, ResourceQuota(_part_of(fleet.capacity[one.name].get(name, 0), share))) for name in resources),
        )
        for one in fleet.flavors
    ]
    return ClusterQueue(name, (resource_group(*flavors),) if resources else (), cohort)


def build_queues(fleet: Fleet, names: Iterable[str]) -> QueueSet:
    """Return queues with equal shares of all nodes, which lend to each other; without names the one of all."""
    distinct = list(dict.fromkeys(names)) or [DEFAULT_QUEUE]
    cohort = DEFAULT_COHORT if len(distinct) > 1 else ""
    return QueueSet(tuple(build_queue(fleet, name, Fraction(1, len(distinct)), cohort) for name in distinct))


def with_unlimited_pods(queue: ClusterQueue) -> ClusterQueue:
    """Return a queue with a quota of pods that is never used up."""
    unlimited = (PODS, ResourceQuota(UNLIMITED))
    groups = (
        resource_group(*(flavor._replace(quotas=(*flavor.quotas, unlimited)) for flavor in one.flavors))
        for one in queue.resource_groups
    )
    return queue._replace(resource_groups=tuple(groups))


def build_fleet_scenario(
    name: str,
    fleet: Fleet,
    arrivals: list[Arrival],
    queues: QueueSet,
    problems: Iterable[str] = (),
    settings: QuotaSettings = DEFAULT_SETTINGS,
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
