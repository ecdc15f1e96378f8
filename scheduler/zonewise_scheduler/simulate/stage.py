"""What a scenario begins with: queues in which nothing runs, and how much there is of everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.queue.placing.ground import ground_of
from zonewise_scheduler.queue.placing.kubelets import kubelets_of
from zonewise_scheduler.queue.placing.topologies import Topologies
from zonewise_scheduler.queue.quota.cycle.nominate import nominate, request_of
from zonewise_scheduler.queue.quota.cycle.values import Head
from zonewise_scheduler.queue.quota.flavors.modes import Mode
from zonewise_scheduler.queue.quota.model.amounts import UNLIMITED
from zonewise_scheduler.queue.quota.model.quotas import each_quota
from zonewise_scheduler.queue.quota.tree.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise_scheduler.queue.quota.model.workload import Settings, Workload
    from zonewise_scheduler.simulate.scenario import Arrival, Scenario


def snapshot_of(scenario: Scenario) -> Snapshot:
    """Return the state before anything has come; raise ValueError for a Topology without levels.

    A flavor without a Topology that is described has quotas only, and so have all where there are no nodes.
    """
    return Snapshot(scenario.queues, scenario.cohorts, scenario.flavors or None, places=_places_of(scenario))


def _places_of(scenario: Scenario) -> Topologies | None:
    nodes, topologies = scenario.nodes, scenario.topologies
    if nodes is None:
        return None
    placed = (one for one in scenario.flavors if one.topology in topologies)
    grounds = [ground_of(one, topologies[one.topology], nodes) for one in placed]
    return Topologies(grounds, kubelets=kubelets_of(nodes, scenario.states) if scenario.states else None)


def capacity_of(scenario: Scenario) -> dict[str, int]:
    """Return the nominal quotas of all queues and cohorts by resource; without those that have no limit somewhere."""
    found: dict[str, int] = {}
    unlimited: set[str] = set()
    for one in (*scenario.queues, *scenario.cohorts):
        for key, quota in each_quota(one.groups):
            found[key.resource] = found.get(key.resource, 0) + quota.nominal
            if quota.nominal == UNLIMITED:
                unlimited.add(key.resource)
    return {name: amount for name, amount in found.items() if name not in unlimited}


def amounts_of(workload: Workload) -> dict[str, int]:
    """Return what a workload takes in all: by its admission, or without one, all that it asks for."""
    found: dict[str, int] = {}
    if workload.admission is not None:
        for key, amount in workload.usage.items():
            found[key.resource] = found.get(key.resource, 0) + amount
    else:
        for one in workload.totals:
            for name, amount in one.requests.items():
                found[name] = found.get(name, 0) + amount
    return found


class Possible:
    """Tells who fits where nothing runs; of those alike in one queue it looks at one."""

    def __init__(self, idle: Snapshot, settings: Settings) -> None:
        self._idle = idle
        self._settings = settings
        self._known: dict[tuple[str, Hashable], bool] = {}

    def __call__(self, arrival: Arrival) -> bool:
        """Tell whether a job does; a queue that admits nothing now may do so later."""
        if arrival.queue not in self._idle.queues:
            return False
        kind = (arrival.queue, arrival.workload.shape)
        if kind not in self._known:
            head = Head(arrival.workload, arrival.queue)
            assignment, _ = nominate(request_of(self._idle, head, self._settings))
            self._known[kind] = assignment.mode != Mode.NO_FIT
        return self._known[kind]
