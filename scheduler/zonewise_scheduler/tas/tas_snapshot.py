"""The topologies of all flavors with the placements of running workloads, and the search for new placements.

pkg/cache/scheduler/clusterqueue_snapshot.go FindTopologyAssignmentsForWorkload; tas_flavor_snapshot.go Fits.

Flavors may have nodes in common (TASHandleOverlappingFlavors). If leaves are nodes, the usage of one flavor's pods
counts in all these flavors. Kueue counts it in the other flavors from the next cycle on. Here it counts immediately,
so that no capacity is assigned twice.

If the kubelets are known, no pod is placed on a node whose kubelet would reject it. KubeletStates and ZoneAllocations
track the available resources of each node, less those of placed pods that no report contains yet. Three kinds of pods
bypass the kubelets:

- Pods of unknown shape are placed only by their requests.
- The same applies to pods in a topology whose lowest level is not the hostname.
- In a flavor without a topology, only the quota decides, as in Kueue. kube-scheduler and the extender choose the nodes.
"""

from __future__ import annotations

from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.assignment_text import format_assignments
from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest, TopologyPlacementFailure
from zonewise_scheduler.tas.leaf_usage import LeafUsage
from zonewise_scheduler.tas.placement.flavor_assignments import find_topology_assignments_for_flavor
from zonewise_scheduler.tas.placement_search import PlacementSearch, explain_failure, search_placement
from zonewise_scheduler.tas.placements import Placements
from zonewise_scheduler.tas.pod_set_placement import (
    group_pod_sets,
    new_placements,
    split_groups,
    tas_pod_set_requests,
)
from zonewise_scheduler.tas.replacement import find_replacement_assignments
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
from zonewise_scheduler.tas.tree.assignment_parameters import has_level
from zonewise_scheduler.tas.tree.topology_assignments import merge_topology_assignments, truncate_assignment
from zonewise_scheduler.tas.types import TASFeatureGates
from zonewise_scheduler.tas.zones.admission_trial import AdmissionTrial, PodsOnNodes
from zonewise_scheduler.tas.zones.node_filling import in_whole_slices
from zonewise_scheduler.tas.zones.zone_allocations import ZoneAllocations
from zonewise_scheduler.tas.zones.zone_level import ZONE_LEVEL

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence, Set

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
    from zonewise_scheduler.quota.api.workload_types import TopologyRequest, Workload
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import SentPods, TopologyAssignments
    from zonewise_scheduler.quota.topology.types import TopologyAssignment
    from zonewise_scheduler.tas.flavor_topology import FlavorTopology
    from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments
    from zonewise_scheduler.tas.placements import Placement
    from zonewise_scheduler.tas.snapshot.flavor_snapshot import NodeTASFlavorSnapshot
    from zonewise_scheduler.tas.types import TASPodSetRequests
    from zonewise_scheduler.tas.zones.kubelet_states import KubeletStates
    from zonewise_scheduler.tas.zones.pod_allocation import PodSetKey

_DEFAULTS = TASFeatureGates()

_CACHE_SIZE = 1024
"""Maximum number of workload kinds whose last result is cached."""


class TASSnapshot:
    """Implements quota's TopologySnapshot."""

    def __init__(
        self,
        flavor_topologies: Iterable[FlavorTopology],
        gates: TASFeatureGates = _DEFAULTS,
        kubelet_states: KubeletStates | None = None,
    ) -> None:
        """Use the flavors' nodes; `kubelet_states`: by row of their node table, None: the kubelets are unknown.

        Raises ValueError if the kubelets are known but the flavors use several node tables.
        """
        self._flavor_topologies = {topology.flavor.name: topology for topology in flavor_topologies}
        self._gates = gates
        self._usage = self._no_usage()
        self._placements = Placements(self._flavor_topologies)
        self._snapshots: dict[str, tuple[int, NodeTASFlavorSnapshot]] = {}
        """By flavor: the version of its usage, and the snapshot with that usage."""
        self._results: dict[Hashable, tuple[Hashable, TopologyAssignments | TopologyPlacementFailure]] = {}
        """By kind of workload: the version of all inputs, and the last result."""
        self._allocations = None if kubelet_states is None else ZoneAllocations(kubelet_states)
        tables = {id(topology.nodes) for topology in self._flavor_topologies.values()}
        if kubelet_states is not None and len(tables) > 1:
            raise ValueError("kubelets: the flavors' nodes are in several tables")

    def has_topology(self, flavor: str) -> bool:
        """Return whether the flavor has a known topology."""
        return flavor in self._flavor_topologies

    def lacks_topology(self, flavor: ResourceFlavor) -> bool:
        """Return whether the flavor names a Topology that is absent or invalid."""
        return bool(flavor.topology_name) and not self.has_topology(flavor.name)

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:
        """Return whether the flavor's topology has the levels of the request."""
        tree = self._flavor_topologies[flavor].tree
        zone_levels = (ZONE_LEVEL,) if tree.is_lowest_level_node and self._allocations is not None else ()
        return _has_level((*tree.level_keys, *zone_levels), request.request)

    def find_topology_assignments(
        self, workload: Workload, requests: Mapping[str, Sequence[PlacementRequest]], *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        """Return read-only assignments for requests by flavor; `empty`: as if no workload were running."""
        if any(request.previous is not None for flavor in requests for request in requests[flavor]):
            return self._extend(workload, requests, empty=empty)
        if workload.admission is not None:
            return self._find(workload, requests, empty=empty)
        version = self._version(requests, empty=empty)
        pod_sets = (request for flavor in requests for request in requests[flavor])
        kind = (
            empty,
            workload.scheduling_shape,
            *((request.flavor, request.pod_set.name, request.pods) for request in pod_sets),
        )
        cached = self._results.get(kind)
        if cached is None or cached[0] != version:
            if len(self._results) >= _CACHE_SIZE:
                self._results.clear()
            cached = self._results[kind] = version, self._find(workload, requests, empty=empty)
        return cached[1]

    def pod_sets_on_unhealthy_nodes(self, workload: Workload) -> Set[str]:
        """Return the names of the pod sets with pods on unhealthy nodes."""
        unhealthy = set(workload.unhealthy_nodes)
        if not unhealthy:
            return unhealthy
        return {
            placement.pod_set
            for placement in self._placements.get(workload).pod_sets
            if any(domain.values[-1] in unhealthy for domain in placement.assignment.domains)
        }

    def fits(self, workload: Workload, held: Workload | None = None) -> bool:
        """Return whether the pods of a workload's admission fit, beyond those that `held` has already placed.

        All pod sets count together, and the check includes each node's number of pods. Kueue's Fits checks each pod set
        on its own and ignores the number of pods. So it can exceed a node's capacity, and it rejects pods without
        requests.
        """
        placement = self._placements.get(workload, held)
        if placement.stale:
            return False
        return all(
            self._usage.fits(
                change,
                self._flavor_topologies[change.flavor].empty_snapshot.remaining_capacity(change.resource),
            )
            for change in placement.usage_changes
        ) and self._kubelets_admit(placement)

    def suits(self, workload: Workload) -> bool:
        """Return whether taints and labels allow the pods of an admission on the nodes of their placement."""
        pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
        return all(
            self._suits(PlacementRequest(pod_sets[placement.pod_set], 0, placement.flavor), placement.assignment)
            for placement in self._placements.get(workload).pod_sets
        )

    def add(self, workload: Workload, held: Workload | None = None) -> None:
        """Add the pods of a workload's admission, beyond those that `held` has already placed."""
        placement = self._placements.get(workload, held)
        self._usage.apply(placement.usage_changes)
        self._add_allocations(workload, placement)

    def remove(self, workload: Workload, held: Workload | None = None) -> None:
        """Remove the pods that add() added."""
        placement = self._placements.get(workload, held)
        self._usage.apply(placement.usage_changes, -1)
        self._remove_allocations(workload, placement)

    def add_all(self, workloads: Iterable[Workload]) -> None:
        """Add the placements of several workloads."""
        placements = [(workload, self._placements.get(workload)) for workload in workloads]
        self._usage.apply([change for _, placement in placements for change in placement.usage_changes])
        for workload, placement in placements:
            self._add_allocations(workload, placement)

    def remove_all(self, workloads: Iterable[Workload]) -> None:
        """Remove the placements of several workloads."""
        placements = [(workload, self._placements.get(workload)) for workload in workloads]
        self._usage.apply([change for _, placement in placements for change in placement.usage_changes], -1)
        for workload, placement in placements:
            self._remove_allocations(workload, placement)

    def copy(self) -> TASSnapshot:
        """Return an independent copy; both share arrays until one of them changes."""
        copied = copy(self)
        copied._usage, copied._snapshots = self._usage.copy(), dict(self._snapshots)
        copied._allocations = None if self._allocations is None else self._allocations.copy()
        return copied

    def copy_for_thread(self) -> TASSnapshot:
        """Return an independent copy that shares no nodes, and no cache except that of placements."""
        copied = self.copy()
        tables = {id(topology.nodes): topology.nodes for topology in self._flavor_topologies.values()}
        copies = {number: nodes.copy() for number, nodes in tables.items()}
        copied._flavor_topologies = {
            name: topology.with_nodes(copies[id(topology.nodes)]) for name, topology in self._flavor_topologies.items()
        }
        copied._snapshots, copied._results = {}, {}
        copied._allocations = None if self._allocations is None else self._allocations.copy_for_thread()
        return copied

    def node_state(self, row: int) -> NodeState | None:
        """Return the predicted state of a node with all its placed pods.

        A node whose pods do not fit is exhausted. None: the node has no report.
        """
        return None if self._allocations is None else self._allocations.table().state(row)

    def predicted_admissions(self, workload: Workload) -> dict[tuple[str, str], tuple[str, ...]]:
        """Return, by pod set and node, the kubelet's predicted assignments to each pod, in order of arrival.

        Pods that appear in a report and pods on nodes without a report are left out.
        """
        if self._allocations is None:
            return {}
        admissions: dict[tuple[str, str], tuple[str, ...]] = {}
        for pod_set, pods_by_row in self._placements.get(workload).on_nodes:
            for row in pods_by_row:
                allocations = self._allocations.predicted_allocations(row, (workload.key, pod_set.pod_set))
                node = self._flavor_topologies[pod_set.flavor].nodes.name(row)
                admissions[pod_set.pod_set, node] = tuple(
                    format_assignments(allocation.assignments)
                    for allocation in allocations
                    if allocation.assignments is not None
                )
        return admissions

    def admits_next(self, key: PodSetKey, node: str, sent: Mapping[PodSetKey, SentPods]) -> bool:
        """Return whether a node's kubelet will admit all pods placed on it if one pod of `key` is sent to it now."""
        if self._allocations is None or not self._flavor_topologies:
            return True
        row = next(iter(self._flavor_topologies.values())).nodes.find_row(node)
        return row is None or self._allocations.admits_next(row, key, sent)

    def _suits(self, request: PlacementRequest, assignment: TopologyAssignment) -> bool:
        topology = self._flavor_topologies[request.flavor]
        suitable = topology.empty_snapshot.matching_leaves(tas_pod_set_requests(request)[0]).mask
        leaves = (topology.tree.find_leaf(domain.values) for domain in assignment.domains)
        return all(leaf is not None and suitable.item(leaf) for leaf in leaves)

    # --- the search

    def _version(self, flavors: Iterable[str], *, empty: bool) -> Hashable:
        """Return a value that changes whenever the result of a search may change."""
        versions = [self._flavor_topologies[flavor].nodes.generation for flavor in flavors]
        if not empty:
            versions += [self._usage.version(flavor) for flavor in flavors]
        if self._allocations is not None:
            versions.append(self._allocations.kubelet_states.revision if empty else self._allocations.version())
        return tuple(versions)

    def _extend(
        self, workload: Workload, requests: Mapping[str, Sequence[PlacementRequest]], *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        """Return the previous assignments of requests, extended by their additional pods, or truncated.

        tas_elastic_workloads.go handleElasticWorkload. If a node with previous pods is gone, only these pods move.
        """
        retained: TopologyAssignments = {}
        additional: dict[str, list[PlacementRequest]] = {}
        for flavor, of_flavor in requests.items():
            for request in of_flavor:
                pods = request.pods
                if request.previous is not None:
                    kept = self._existing(flavor, truncate_assignment(request.previous, pods))
                    retained[request.pod_set.name] = kept
                    pods -= kept.pod_count
                if pods:
                    additional.setdefault(flavor, []).append(request._replace(pods=pods, previous=None))
        found = self._find(workload, additional, empty=empty)
        if isinstance(found, TopologyPlacementFailure):
            return found
        trees = {
            request.pod_set.name: self._flavor_topologies[flavor].tree
            for flavor, of_flavor in additional.items()
            for request in of_flavor
        }
        merged = {
            name: merge_topology_assignments(trees[name], assignment, retained[name])
            for name, assignment in found.items()
            if name in retained
        }
        return found | retained | merged

    def _existing(self, flavor: str, assignment: TopologyAssignment) -> TopologyAssignment:
        """Return an assignment without the domains that a flavor's topology no longer has."""
        tree = self._flavor_topologies[flavor].tree
        if assignment.levels != tree.assignment_levels:
            return assignment._replace(domains=())
        domains = (domain for domain in assignment.domains if tree.find_leaf(domain.values) is not None)
        return assignment._replace(domains=tuple(domains))

    def _find(
        self, workload: Workload, requests: Mapping[str, Sequence[PlacementRequest]], *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        usage, trial = None if empty else self._usage, self._admission_trial(empty=empty)
        assignments: TopologyAssignments = {}
        unhealthy_node = next(iter(workload.unhealthy_nodes), "")
        for flavor in sorted(requests):
            for group in self._group_requests(workload, requests[flavor]):
                result = self._find_in_flavor(workload, group, self._flavor_snapshot(flavor, usage), trial)
                if isinstance(result, TopologyPlacementFailure):
                    return result
                assignments |= result
                if len(assignments) < sum(map(len, requests.values())):
                    placements = new_placements(workload, group, result, self.has_topology, unhealthy_node)
                    usage = self._no_usage() if usage is None else usage.copy()
                    usage.apply(self._placements.compute(placements).usage_changes)
        return assignments

    def _group_requests(self, workload: Workload, requests: Sequence[PlacementRequest]) -> list[list[PlacementRequest]]:
        """Return the groups of requests; pods on an unhealthy node are replaced pod set by pod set."""
        return split_groups(requests) if self.pod_sets_on_unhealthy_nodes(workload) else group_pod_sets(requests)

    def _find_in_flavor(
        self,
        workload: Workload,
        group: Sequence[PlacementRequest],
        snapshot: NodeTASFlavorSnapshot,
        trial: AdmissionTrial | None,
    ) -> dict[str, TopologyAssignment] | TopologyPlacementFailure:
        """Return a group's assignments in its flavor; only pods on an unhealthy node get new leaves if there is one."""
        flavor = group[0].flavor
        topology = self._flavor_topologies[flavor]
        unhealthy_nodes = workload.unhealthy_nodes if self.pod_sets_on_unhealthy_nodes(workload) else ()
        if len(unhealthy_nodes) > 1:
            return TopologyPlacementFailure(
                group[0].pod_set.name, flavor, f"several nodes are unhealthy: {', '.join(unhealthy_nodes)}"
            )
        current_assignments = {
            placement.pod_set: placement.assignment for placement in self._placements.get(workload).pod_sets
        }

        groups = {
            pod_set.name: pod_set.topology.pod_set_group_name
            for pod_set in workload.pod_sets
            if pod_set.topology is not None and pod_set.name in current_assignments
        }

        def find_assignments(pod_sets: Sequence[TASPodSetRequests]) -> TASAssignments | TopologyAssignmentFailure:
            if unhealthy_nodes:
                return find_replacement_assignments(
                    snapshot, pod_sets, current_assignments, unhealthy_nodes[0], self._gates, groups=groups
                )
            return find_topology_assignments_for_flavor(snapshot, pod_sets, self._gates)

        search = PlacementSearch(
            topology, trial if topology.tree.is_lowest_level_node else None, group, current_assignments
        )
        try:
            result = search_placement(search, find_assignments)
        except ValueError as error:  # a workload that the API server would reject
            return TopologyPlacementFailure(group[0].pod_set.name, flavor, str(error))
        if isinstance(result.result, TopologyAssignmentFailure):
            return explain_failure(search, result, result.result)
        return result.result.assignments

    def _no_usage(self) -> LeafUsage:
        return LeafUsage({name: topology.tree.leaf_count for name, topology in self._flavor_topologies.items()})

    def _flavor_snapshot(self, flavor: str, usage: LeafUsage | None) -> NodeTASFlavorSnapshot:
        """Return a flavor's snapshot with a usage; None: without usage."""
        empty_snapshot = self._flavor_topologies[flavor].empty_snapshot
        if usage is None:
            return empty_snapshot
        if usage is not self._usage:
            return empty_snapshot.with_usage(usage.usage(flavor))
        version, cached = usage.version(flavor), self._snapshots.get(flavor)
        if cached is None or cached[0] != version:
            cached = self._snapshots[flavor] = version, empty_snapshot.with_usage(usage.usage(flavor))
        return cached[1]

    # --- the kubelets

    def _admission_trial(self, *, empty: bool) -> AdmissionTrial | None:
        if self._allocations is None:
            return None
        kubelet_states = self._allocations.kubelet_states
        return AdmissionTrial(kubelet_states, kubelet_states.empty_table() if empty else self._allocations.table())

    def _kubelets_admit(self, placement: Placement) -> bool:
        """Return whether the kubelets admit the pods of a placement, pod set by pod set."""
        trial = self._admission_trial(empty=False) if placement.on_nodes else None
        if trial is None:
            return True
        for pod_set, pods_by_row in placement.on_nodes:
            if pod_set.shape is None:
                continue
            limit = in_whole_slices(max(pods_by_row.values()), pod_set.zone_slice_size)
            max_pods = trial.max_pods(pod_set.shape, limit, pod_set.zone_slice_size)
            if any(max_pods[row] < pods for row, pods in pods_by_row.items()):
                return False
            trial.assume([PodsOnNodes(pod_set.pod_set, pod_set.shape, pod_set.zone_slice_size, pods_by_row)])
        return True

    def _add_allocations(self, workload: Workload, placement: Placement) -> None:
        """Add pods of known shape to their nodes, if the kubelets are known."""
        if self._allocations is None:
            return
        for pod_set, pods_by_row in placement.on_nodes:
            for row, pods in pods_by_row.items():
                if pod_set.shape is not None:
                    self._allocations.add(row, (workload.key, pod_set.pod_set), pod_set.shape, pods)

    def _remove_allocations(self, workload: Workload, placement: Placement) -> None:
        """Remove pods from their nodes, if the kubelets are known."""
        if self._allocations is None:
            return
        for pod_set, pods_by_row in placement.on_nodes:
            for row, pods in pods_by_row.items():
                self._allocations.remove(row, (workload.key, pod_set.pod_set), pods)


_has_level = lru_cache(_CACHE_SIZE)(has_level)
