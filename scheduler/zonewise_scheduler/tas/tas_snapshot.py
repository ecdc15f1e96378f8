"""Places in the topologies of all flavors, and what runs there.

pkg/cache/scheduler/clusterqueue_snapshot.go FindTopologyAssignmentsForWorkload, tas_flavor_snapshot.go Fits. Flavors
may have nodes in common (TASHandleOverlappingFlavors): where leaves are nodes, what one flavor's pods take is taken
from all. Kueue takes it from the others only with the next cycle; here it is at once, so that no node is given twice.

Where the kubelets are known, no pod is placed that its kubelet would refuse: Kubelets and Holdings tell what each has
left in its zones, with the pods that are placed and not yet reported. Pods of a pod set of which the shape is not known
are placed by their requests alone. So are all where a topology ends above the host; and where a flavor has none, the
quota alone decides, as Kueue has it: which nodes take the pods is then up to kube-scheduler and the extender.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure
from zonewise_scheduler.quota.topology.types import HOSTNAME, TopologyAssignment, TopologyDomainAssignment
from zonewise_scheduler.tas.failure_explanation import explain_failure
from zonewise_scheduler.tas.leaf_usage import LeafUsage
from zonewise_scheduler.tas.placement.flavor_assignments import find_topology_assignments_for_flavor
from zonewise_scheduler.tas.placement_search import PlacementSearch, search_placement
from zonewise_scheduler.tas.placements import Placements
from zonewise_scheduler.tas.pod_set_placement import group_pod_sets, new_placements, split_groups
from zonewise_scheduler.tas.replacement import find_replacement_assignments
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
from zonewise_scheduler.tas.tree.assignment_parameters import has_level
from zonewise_scheduler.tas.types import TASFeatureGates
from zonewise_scheduler.tas.zones.admission_trial import AdmissionTrial, PodsOnNodes
from zonewise_scheduler.tas.zones.zone_allocations import ZoneAllocations
from zonewise_scheduler.tas.zones.zone_level import ZONE_LEVEL

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence, Set

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.quota.api.workload_types import TopologyRequest, Workload
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest, TopologyAssignments
    from zonewise_scheduler.tas.flavor_topology import FlavorTopology
    from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments
    from zonewise_scheduler.tas.placements import Placement
    from zonewise_scheduler.tas.snapshot.flavor_snapshot import NodeTASFlavorSnapshot
    from zonewise_scheduler.tas.types import TASPodSetRequests
    from zonewise_scheduler.tas.zones.kubelet_states import KubeletStates
    from zonewise_scheduler.tas.zones.zone_allocations import PodSetKey

_DEFAULTS = TASFeatureGates()

_REMEMBERED = 1024
"""Kinds of workloads of which is remembered what was found."""


class TASSnapshot:
    """Implements quota's Places."""

    def __init__(
        self,
        flavor_topologies: Iterable[FlavorTopology],
        gates: TASFeatureGates = _DEFAULTS,
        kubelet_states: KubeletStates | None = None,
    ) -> None:
        """Take the flavors' nodes; `kubelets` are by the rows of their one table, None: nothing is known of zones.

        Raises ValueError where there are kubelets, and flavors have tables of their own.
        """
        self._grounds = {one.flavor.name: one for one in flavor_topologies}
        self._options = gates
        self._books = LeafUsage({name: one.tree.leaf_count for name, one in self._grounds.items()})
        self._stays = Placements(self._grounds)
        self._supplies: dict[str, tuple[int, NodeTASFlavorSnapshot]] = {}
        """By flavor: what is left, and the stamp of the books that it is left by."""
        self._known: dict[Hashable, tuple[Hashable, TopologyAssignments | TopologyPlacementFailure]] = {}
        """What was found last for workloads of one kind, and in what state of everything."""
        self._holdings = None if kubelet_states is None else ZoneAllocations(kubelet_states)
        tables = {id(one.nodes) for one in self._grounds.values()}
        if kubelet_states is not None and len(tables) > 1:
            raise ValueError("kubelets: the flavors' nodes are in several tables")

    def has_topology(self, flavor: str) -> bool:
        """Tell whether the flavor has a topology that is known."""
        return flavor in self._grounds

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:
        """Tell whether its topology has the levels that are asked for."""
        tree = self._grounds[flavor].tree
        zones = (ZONE_LEVEL,) if tree.is_lowest_level_node and self._holdings is not None else ()
        return _has_levels((*tree.level_keys, *zones), request.request)

    def find_topology_assignments(
        self, workload: Workload, requests: Mapping[str, Sequence[PlacementRequest]], *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        """Find places for the wishes, by flavor; `empty`: as if nothing ran. What is found is not to be changed."""
        if workload.admission is not None:
            return self._find(workload, requests, empty=empty)
        state = self._state(requests, empty=empty)
        pods = (one for flavor in requests for one in requests[flavor])
        asked = empty, workload.scheduling_shape, *((one.flavor, one.pod_set.name, one.pods) for one in pods)
        known = self._known.get(asked)
        if known is None or known[0] != state:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[asked] = state, self._find(workload, requests, empty=empty)
        return known[1]

    def pod_sets_on_unhealthy_nodes(self, workload: Workload) -> Set[str]:
        """Return the names of the pod sets that have pods on failed nodes."""
        failed = set(workload.unhealthy_nodes)
        if not failed:
            return failed
        spots = self._stays.of_workload(workload).pod_sets
        return {one.pod_set for one in spots if any(at.values[-1] in failed for at in one.assignment.domains)}

    def fits(self, workload: Workload, held: Workload | None = None) -> bool:
        """Tell whether there is room at the places of a workload's admission, beyond those that it held before.

        For all of its pod sets together, and for the pods themselves where nodes take only so many. Kueue's Fits looks
        at each set on its own, and not at the number of pods; so it gives a node to more than it has room for, and
        pods that request nothing are given none.
        """
        more = self._stays.of_workload(workload, held)
        if more.stale:
            return False
        rooms = (
            (one, self._grounds[one.flavor].empty_snapshot.remaining_capacity(one.resource))
            for one in more.usage_changes
        )
        return all(self._books.fits(one, have) for one, have in rooms) and self._admit(more)

    def add(self, workload: Workload, held: Workload | None = None) -> None:
        """Take note that a workload has the places of its admission, beyond those that it held before."""
        more = self._stays.of_workload(workload, held)
        self._books.apply(more.usage_changes)
        self._arrive(workload, more)

    def remove(self, workload: Workload, held: Workload | None = None) -> None:
        """Take note that it has them no more."""
        more = self._stays.of_workload(workload, held)
        self._books.apply(more.usage_changes, -1)
        self._leave(workload, more)

    def add_all(self, workloads: Iterable[Workload]) -> None:
        """Take note of several."""
        found = [(one, self._stays.of_workload(one)) for one in workloads]
        self._books.apply([change for _, stay in found for change in stay.usage_changes])
        for one, stay in found:
            self._arrive(one, stay)

    def remove_all(self, workloads: Iterable[Workload]) -> None:
        """Take note that several have their places no more."""
        found = [(one, self._stays.of_workload(one)) for one in workloads]
        self._books.apply([change for _, stay in found for change in stay.usage_changes], -1)
        for one, stay in found:
            self._leave(one, stay)

    def copy(self) -> TASSnapshot:
        """Return another that changes on its own; what is used is shared until then."""
        other = copy(self)
        other._books, other._supplies = self._books.copy(), dict(self._supplies)
        other._holdings = None if self._holdings is None else self._holdings.copy()
        return other

    def report(self, row: int, state: NodeState | None, reported_pods: Mapping[PodSetKey, int]) -> None:
        """Take the report of a node, by its row; `there`: how many of the pods of each set it accounts for.

        Who: the workload's key and the pod set's name. Pods beyond those are put on top of it, as if they came now.
        Raises ValueError where no kubelets are known.
        """
        if self._holdings is None:
            raise ValueError("report: the topologies were made without kubelets")
        self._holdings.report(row, state, reported_pods)

    def node_state(self, row: int) -> NodeState | None:
        """Return a node as its kubelet is foretold to be once all pods are there that it was given.

        Nothing is left of one whose pods no longer fit; None where nothing is known of it.
        """
        return None if self._holdings is None else self._holdings.table().state(row)

    def zone_assignments(self, workload: Workload) -> dict[str, TopologyAssignment]:
        """Return by pod set the zones of its hosts that the pods of a running workload have, as was foretold.

        Levels: hostname and zone. A zone is its number, several are joined by commas; "" for pods that are given
        nothing of a zone, or of which nothing is known. Kueue's API has no place for it.
        """
        if self._holdings is None:
            return {}
        found: dict[str, TopologyAssignment] = {}
        for one, rows in self._stays.of_workload(workload).on_nodes:
            domains: list[TopologyDomainAssignment] = []
            for row in rows:
                zones = Counter(self._holdings.zones(row, (workload.key, one.pod_set)))
                host = self._grounds[one.flavor].nodes.name(row)
                domains += [TopologyDomainAssignment((host, _numbers(each)), zones[each]) for each in sorted(zones)]
            found[one.pod_set] = TopologyAssignment((HOSTNAME, ZONE_LEVEL), tuple(domains))
        return found

    # --- to find

    def _state(self, flavors: Iterable[str], *, empty: bool) -> Hashable:
        """Return what is another whenever there may be other places than before; as if nothing ran, or now."""
        found = [self._grounds[one].nodes.generation for one in flavors]
        if not empty:
            found += [self._books.version(one) for one in flavors]
        if self._holdings is not None:
            found.append(self._holdings.kubelet_states.revision if empty else self._holdings.version())
        return tuple(found)

    def _find(
        self, workload: Workload, wishes: Mapping[str, Sequence[PlacementRequest]], *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        books, trial = None if empty else self._books, self._trial(empty=empty)
        found: TopologyAssignments = {}
        failed = next(iter(workload.unhealthy_nodes), "")
        for flavor in sorted(wishes):
            for group in self._groups(workload, wishes[flavor]):
                supply = self._supply(flavor, books)
                placed = self._place(workload, group, supply, trial)
                if isinstance(placed, TopologyPlacementFailure):
                    return placed
                found |= placed
                if len(found) < sum(map(len, wishes.values())):
                    books = self._empty() if books is None else books.copy()
                    books.apply(
                        self._stays.of_pod_sets(
                            new_placements(workload, group, placed, self.has_topology, failed)
                        ).usage_changes
                    )
        return found

    def _groups(self, workload: Workload, wishes: Sequence[PlacementRequest]) -> list[list[PlacementRequest]]:
        """Return wishes that are placed together; what moves from a failed node moves set by set."""
        return split_groups(wishes) if self.pod_sets_on_unhealthy_nodes(workload) else group_pod_sets(wishes)

    def _place(
        self,
        workload: Workload,
        wishes: Sequence[PlacementRequest],
        supply: NodeTASFlavorSnapshot,
        trial: AdmissionTrial | None,
    ) -> dict[str, TopologyAssignment] | TopologyPlacementFailure:
        """Find places in one flavor; for pods of a failed node beside those that stay."""
        flavor = wishes[0].flavor
        ground = self._grounds[flavor]
        failed = workload.unhealthy_nodes if self.pod_sets_on_unhealthy_nodes(workload) else ()
        if len(failed) > 1:
            return TopologyPlacementFailure(
                wishes[0].pod_set.name, flavor, f"several nodes failed at once: {', '.join(failed)}"
            )
        held = {one.pod_set: one.assignment for one in self._stays.of_workload(workload).pod_sets}

        def attempt(pod_sets: Sequence[TASPodSetRequests]) -> TASAssignments | TopologyAssignmentFailure:
            if failed:
                return find_replacement_assignments(supply, pod_sets, held, failed[0], self._options)
            return find_topology_assignments_for_flavor(supply, pod_sets, self._options)

        one = PlacementSearch(ground, trial if ground.tree.is_lowest_level_node else None, wishes, held)
        try:
            outcome = search_placement(one, attempt)
        except ValueError as error:  # a workload that no API server would have taken
            return TopologyPlacementFailure(wishes[0].pod_set.name, flavor, str(error))
        if isinstance(outcome.result, TopologyAssignmentFailure):
            return explain_failure(one, outcome, outcome.result)
        return outcome.result.assignments

    def _trial(self, *, empty: bool) -> AdmissionTrial | None:
        if self._holdings is None:
            return None
        kubelets = self._holdings.kubelet_states
        return AdmissionTrial(kubelets, kubelets.empty_table() if empty else self._holdings.table())

    def _admit(self, stay: Placement) -> bool:
        """Tell whether the kubelets admit pods, one set after the other."""
        trial = self._trial(empty=False) if stay.on_nodes else None
        if trial is None:
            return True
        for one, rows in stay.on_nodes:
            if one.shape is None:
                continue
            most = trial.max_pods(one.shape, max(rows.values()), one.zone_slice_size)
            if any(most[row] < count for row, count in rows.items()):
                return False
            trial.assume([PodsOnNodes(one.pod_set, one.shape, one.zone_slice_size, rows)])
        return True

    def _arrive(self, workload: Workload, stay: Placement) -> None:
        """Put pods on their nodes, of which kubelets decide."""
        if self._holdings is None:
            return
        for one, rows in stay.on_nodes:
            for row, count in rows.items():
                if one.shape is not None:
                    self._holdings.add(row, (workload.key, one.pod_set), one.shape, count)

    def _leave(self, workload: Workload, stay: Placement) -> None:
        """Take pods off their nodes."""
        if self._holdings is None:
            return
        for one, rows in stay.on_nodes:
            for row, count in rows.items():
                self._holdings.remove(row, (workload.key, one.pod_set), count)

    def _empty(self) -> LeafUsage:
        return LeafUsage({name: one.tree.leaf_count for name, one in self._grounds.items()})

    def _supply(self, flavor: str, books: LeafUsage | None) -> NodeTASFlavorSnapshot:
        """Return what is left for pods by books; None: nothing is used."""
        idle = self._grounds[flavor].empty_snapshot
        if books is None:
            return idle
        if books is not self._books:
            return idle.with_usage(books.usage(flavor))
        stamp, known = books.version(flavor), self._supplies.get(flavor)
        if known is None or known[0] != stamp:
            known = self._supplies[flavor] = stamp, idle.with_usage(books.usage(flavor))
        return known[1]


_has_levels = lru_cache(_REMEMBERED)(has_level)


def _numbers(zones: int) -> str:
    return ",".join(str(zone) for zone in range(zones.bit_length()) if zones >> zone & 1)
