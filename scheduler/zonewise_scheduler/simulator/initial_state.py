"""The initial state of a simulation: empty queues and the capacity."""

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
    """Return the snapshot before the first submission; raise ValueError for a Topology without levels.

    A flavor whose Topology is not described has only quotas. Without nodes, so do all flavors.
    """
    tas_snapshot = _tas_snapshot(scenario)
    flavors = [
        flavor._replace(topology_name="") if tas_snapshot is None or tas_snapshot.lacks_topology(flavor) else flavor
        for flavor in scenario.flavors
    ]
    return Snapshot(scenario.queues, scenario.cohorts, flavors or None, tas_snapshot=tas_snapshot)


def _tas_snapshot(scenario: Scenario) -> TASSnapshot | None:
    nodes, topologies = scenario.nodes, scenario.topologies
    if nodes is None:
        return None
    flavors = (flavor for flavor in scenario.flavors if flavor.topology_name in topologies)
    flavor_topologies = [build_flavor_topology(flavor, topologies[flavor.topology_name], nodes) for flavor in flavors]
    return TASSnapshot(
        flavor_topologies, kubelet_states=build_kubelet_states(nodes, scenario.states) if scenario.states else None
    )


def nominal_capacity(scenario: Scenario) -> dict[str, int]:
    """Return the nominal quotas of all queues and cohorts by resource, except resources with an unlimited quota."""
    capacity: dict[str, int] = {}
    unlimited: set[str] = set()
    for holder in (*scenario.queues, *scenario.cohorts):
        for key, quota in resource_quotas(holder.resource_groups):
            capacity[key.resource] = capacity.get(key.resource, 0) + quota.nominal
            if quota.nominal == UNLIMITED:
                unlimited.add(key.resource)
    return {name: amount for name, amount in capacity.items() if name not in unlimited}


def resource_amounts(workload: Workload) -> dict[str, int]:
    """Return the total usage of an admitted workload, or the total requests of one without admission."""
    if workload.admission is None:
        return workload.requests_by_resource
    amounts: dict[str, int] = {}
    for key, amount in workload.usage.items():
        amounts[key.resource] = amounts.get(key.resource, 0) + amount
    return amounts


class FeasibilityCheck:
    """Checks whether a job fits into an idle cluster. Jobs with the same shape and queue share a result."""

    def __init__(self, idle: Snapshot, settings: QuotaSettings) -> None:
        self._idle = idle
        self._settings = settings
        self._results: dict[tuple[str, Hashable], bool] = {}

    def __call__(self, arrival: Arrival) -> bool:
        """Return whether a job fits; a stopped queue counts as active."""
        if arrival.queue not in self._idle.cluster_queues:
            return False
        kind = (arrival.queue, arrival.workload.scheduling_shape)
        if kind not in self._results:
            head = Head(arrival.workload, arrival.queue)
            assignment, _ = nominate(flavor_assigner(self._idle, head, self._settings))
            self._results[kind] = assignment.representative_mode is not FlavorAssignmentMode.NO_FIT
        return self._results[kind]
