"""Fleets of nodes with their quotas, and scenarios of jobs on a fleet."""

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
"""Name of the only ClusterQueue of a fleet without queues."""
DEFAULT_COHORT = "all"
"""Name of the cohort of queues that jobs name but nothing describes."""

_ALL = Fraction(1)


class Fleet(NamedTuple):
    """Nodes with their flavors and topologies."""

    name: str
    nodes: NodeInfoTable
    topologies: Mapping[str, tuple[str, ...]]
    flavors: tuple[ResourceFlavor, ...]
    """One flavor for each kind of node, in the order of a resource group."""
    capacity: Mapping[str, Mapping[str, int]]
    """Capacity of a flavor's nodes by resource: milli-CPU, bytes or counts, UNLIMITED if unknown; without pods."""
    states: Mapping[str, NodeState] = {}
    """State of the idle zones by node, without nodes whose zones are unknown."""
    has_devices: bool = False
    """Whether the devices of ResourceSlices are known."""
    problems: tuple[str, ...] = ()

    @property
    def total_capacity(self) -> dict[str, int]:
        """Return the capacity of all nodes by resource."""
        totals: dict[str, int] = {}
        for amounts in self.capacity.values():
            for resource, amount in amounts.items():
                totals[resource] = plus(totals.get(resource, 0), amount)
        return totals


class QueueSet(NamedTuple):
    """ClusterQueues and Cohorts."""

    queues: tuple[ClusterQueue, ...]
    cohorts: tuple[Cohort, ...] = ()


def build_queue(fleet: Fleet, name: str = DEFAULT_QUEUE, share: Fraction = _ALL, cohort: str = "") -> ClusterQueue:
    """Return a queue whose quota is a share of all nodes, rounded down."""
    resources = fleet.total_capacity
    flavors = [
        FlavorQuotas(
            flavor.name,
            tuple(
                (name, ResourceQuota(_share_of(fleet.capacity[flavor.name].get(name, 0), share))) for name in resources
            ),
        )
        for flavor in fleet.flavors
    ]
    return ClusterQueue(name, (resource_group(*flavors),) if resources else (), cohort)


def build_queues(fleet: Fleet, names: Iterable[str]) -> QueueSet:
    """Return queues with equal shares of all nodes in one cohort; without names, the default queue."""
    queue_names = list(dict.fromkeys(names)) or [DEFAULT_QUEUE]
    cohort = DEFAULT_COHORT if len(queue_names) > 1 else ""
    return QueueSet(tuple(build_queue(fleet, name, Fraction(1, len(queue_names)), cohort) for name in queue_names))


def with_unlimited_pods(queue: ClusterQueue) -> ClusterQueue:
    """Return the queue with an unlimited quota of pods added."""
    unlimited = (PODS, ResourceQuota(UNLIMITED))
    groups = (
        resource_group(*(flavor._replace(quotas=(*flavor.quotas, unlimited)) for flavor in group.flavors))
        for group in queue.resource_groups
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


def _share_of(amount: int, share: Fraction) -> int:
    return amount if amount == UNLIMITED else int(amount * share)
