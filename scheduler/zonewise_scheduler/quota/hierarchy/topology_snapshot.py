"""Where pods find places in topologies, as far as quotas ask: the interface to topology-aware placement."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from zonewise_scheduler.quota.api.workload_types import PodSet, TopologyRequest, Workload


class PlacementRequest(NamedTuple):
    """Pods of one pod set that are to be placed in the topology of a flavor."""

    pod_set: PodSet
    pods: int
    flavor: str


class TopologyPlacementFailure(NamedTuple):
    """That a pod set finds no place, in words and as values; slices of one pod are pods."""

    pod_set: str
    flavor: str
    reason: str
    """A sentence."""
    level: str = ""
    """The level of which one domain must hold all, and none does: a label key; "": all together have too little."""
    domain: tuple[str, ...] = ()
    """Of that level the one with the most room, by its values from the outermost level on; a zone is its number."""
    fitting_slices: int = 0
    """How many slices fit there, or in all."""
    slice_count: int = 0
    """How many there are; 0: it is no matter of room."""
    slice_size: int = 1
    """Pods of a slice."""
    resource: str = ""
    """Of which most nodes without room for a pod are shortest; "": of none."""
    node: str = ""
    """One that takes as many as any, and whose kubelet is what stands in the way of more."""
    kubelet_reason: str = ""
    """What it lacks: "needs 6 CPUs in one zone; zone 0 has 4 free, zone 1 has 4"."""


TopologyAssignments = dict[str, object]
"""By pod set: where its pods go."""


class TopologySnapshot(Protocol):
    """What knows of topologies: it follows what runs, and finds places for what does not."""

    def has_topology(self, flavor: str) -> bool:
        """Tell whether the flavor has a topology that is known."""
        ...

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:
        """Tell whether its topology has the levels that are asked for."""
        ...

    def find_topology_assignments(
        self, workload: Workload, requests: Mapping[str, Sequence[PlacementRequest]], *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        """Find places for the wishes, by flavor; `empty`: as if nothing ran.

        Those of a workload with failed nodes are for the pods that are there; its other pods stay, and run.
        """
        ...

    def pod_sets_on_unhealthy_nodes(self, workload: Workload) -> Set[str]:
        """Return the names of the pod sets that have pods on failed nodes."""
        ...

    def fits(self, workload: Workload, held: Workload | None = None) -> bool:
        """Tell whether there is room at the places of a workload's admission, beyond those that it held before."""
        ...

    def add(self, workload: Workload, held: Workload | None = None) -> None:
        """Take note that a workload has the places of its admission, beyond those that it held before."""
        ...

    def remove(self, workload: Workload, held: Workload | None = None) -> None:
        """Take note that it has them no more."""
        ...

    def add_all(self, workloads: Iterable[Workload]) -> None:
        """Take note of several."""
        ...

    def remove_all(self, workloads: Iterable[Workload]) -> None:
        """Take note that several have their places no more."""
        ...

    def copy(self) -> TopologySnapshot:
        """Return another that changes on its own."""
        ...


class EmptyTopologySnapshot:
    """A cluster without topologies."""

    def has_topology(self, flavor: str) -> bool:  # noqa: ARG002 -- there is none
        """No flavor has one."""
        return False

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:  # noqa: ARG002 -- there is none
        """There are no levels."""
        return False

    def find_topology_assignments(
        self,
        workload: Workload,  # noqa: ARG002 -- nothing is placed
        requests: Mapping[str, Sequence[PlacementRequest]],
        *,
        empty: bool,  # noqa: ARG002 -- nothing is placed
    ) -> TopologyAssignments | TopologyPlacementFailure:
        """Nothing is placed where nothing is wished for."""
        for flavor, found in requests.items():
            return TopologyPlacementFailure(found[0].pod_set.name, flavor, "no topology is known")
        return {}

    def pod_sets_on_unhealthy_nodes(self, workload: Workload) -> Set[str]:  # noqa: ARG002 -- nothing is placed
        """No pod is on a known node."""
        return frozenset()

    def fits(self, workload: Workload, held: Workload | None = None) -> bool:  # noqa: ARG002 -- nothing is placed
        """Nothing is in the way."""
        return True

    def add(self, workload: Workload, held: Workload | None = None) -> None:
        """Nothing follows."""

    def remove(self, workload: Workload, held: Workload | None = None) -> None:
        """Nothing follows."""

    def add_all(self, workloads: Iterable[Workload]) -> None:
        """Nothing follows."""

    def remove_all(self, workloads: Iterable[Workload]) -> None:
        """Nothing follows."""

    def copy(self) -> TopologySnapshot:
        """Return another."""
        return EmptyTopologySnapshot()
