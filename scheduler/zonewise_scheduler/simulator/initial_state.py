"""What a scenario begins with: queues in which nothing runs, and how much there is of everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.resource_quota import resource_quotas
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.nomination import flavor_assigner, nominate
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.tas.flavor_topology import build_flavor_topology
from zonewise_scheduler.tas.tas_snapshot import TASSnapshot
from zonewise_scheduler.tas.zones.kubelet_states import build_kubelet_states

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.simulator.scenario import Arrival, Scenario


def initial_snapshot(scenario: Scenario) -> Snapshot:
    """Return the state before anything has come; raise ValueError for a Topology without levels.

    A flavor without a Topology that is described has quotas only, and so have all where there are no nodes.
    """
    return Snapshot(scenario.queues, scenario.cohorts, scenario.flavors or None, tas_snapshot=_places_of(scenario))


def _places_of(scenario: Scenario) -> TASSnapshot | None:
    nodes, topologies = scenario.nodes, scenario.topologies
    if nodes is None:
        return None
    placed = (one for one in scenario.flavors if one.topology_name in topologies)
    grounds = [build_flavor_topology(one, topologies[one.topology_name], nodes) for one in placed]
    return TASSnapshot(
        grounds, kubelet_states=build_kubelet_states(nodes, scenario.states) if scenario.states else None
    )


def nominal_capacity(scenario: Scenario) -> dict[str, int]:
    """Return the nominal quotas of all queues and cohorts by resource; without those that have no limit somewhere."""
    found: dict[str, int] = {}
    unlimited: set[str] = set()
    for one in (*scenario.queues, *scenario.cohorts):
        for key, quota in resource_quotas(one.resource_groups):
            found[key.resource] = found.get(key.resource, 0) + quota.nominal
            if quota.nominal == UNLIMITED:
                unlimited.add(key.resource)
    return {name: amount for name, amount in found.items() if name not in unlimited}


def resource_amounts(workload: Workload) -> dict[str, int]:
    """Return what a workload takes in all: by its admission, or without one, all that it asks for."""
    found: dict[str, int] = {}
    if workload.admission is not None:
        for key, amount in workload.usage.items():
            found[key.resource] = found.get(key.resource, 0) + amount
    else:
        for one in workload.total_requests:
            for name, amount in one.requests.items():
                found[name] = found.get(name, 0) + amount
    return found


class FeasibilityCheck:
    """Tells who fits where nothing runs; of those alike in one queue it looks at one."""

    def __init__(self, idle: Snapshot, settings: QuotaSettings) -> None:
        self._idle = idle
        self._settings = settings
        self._known: dict[tuple[str, Hashable], bool] = {}

    def __call__(self, arrival: Arrival) -> bool:
        """Tell whether a job does; a queue that admits nothing now may do so later."""
        if arrival.queue not in self._idle.cluster_queues:
            return False
        kind = (arrival.queue, arrival.workload.scheduling_shape)
        if kind not in self._known:
            head = Head(arrival.workload, arrival.queue)
            assignment, _ = nominate(flavor_assigner(self._idle, head, self._settings))
            self._known[kind] = assignment.representative_mode != FlavorAssignmentMode.NO_FIT
        return self._known[kind]
