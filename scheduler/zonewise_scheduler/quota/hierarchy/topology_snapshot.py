"""The interface between quotas and topology-aware scheduling: where the pods of a workload can be placed.

Upstream: pkg/cache/scheduler/clusterqueue_snapshot.go FindTopologyAssignmentsForWorkload and Fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from zonewise_scheduler.quota.topology.types import TopologyAssignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
    from zonewise_scheduler.quota.api.workload_types import PodSet, TopologyRequest, Workload


class PlacementRequest(NamedTuple):
    """The pods of a pod set to place in the topology of a flavor."""

    pod_set: PodSet
    pods: int
    flavor: str
    previous: TopologyAssignment | None = None
    """Where the pods of the slice run that this pod set's workload replaces. They stay there."""


class TopologyPlacementFailure(NamedTuple):
    """The reason why a pod set has no placement, as a sentence and as values."""

    pod_set: str
    flavor: str
    reason: str
    """The reason as a sentence."""
    level: str = ""
    """Label key of the level at which one domain must hold all slices; "" if all domains together have too little."""
    domain: tuple[str, ...] = ()
    """The domain of that level that holds the most slices, by its values, outermost level first. A zone is named by its
    number."""
    node: str = ""
    """A node that holds no fewer pods than any other, and whose kubelet would reject more."""
    kubelet_reason: str = ""
    """The shortage on that node: "needs 6 CPUs in one zone; zone 0 has 4 free, zone 1 has 4"."""
    resources: tuple[str, ...] = ()
    """The resources that limit the nodes without room for a pod."""


class SentPods(NamedTuple):
    """The pods of a pod set on one node that have not ended and are no longer held by a gate."""

    pods: int
    settled: int = 0
    """Number of pods that the kubelet admitted long enough ago for the node's report to include them."""


TopologyAssignments = dict[str, TopologyAssignment]
"""Placements by pod set."""


class TopologySnapshot(Protocol):
    """The topologies of all flavors with the placements of running workloads."""

    def has_topology(self, flavor: str) -> bool:
        """Return whether the flavor has a known topology."""
        ...

    def lacks_topology(self, flavor: ResourceFlavor) -> bool:
        """Return whether the flavor names an absent or invalid Topology; False also if nothing is placed at all."""
        ...

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:
        """Return whether the flavor's topology has the levels of the request."""
        ...

    def find_topology_assignments(
        self, workload: Workload, requests: Mapping[str, Sequence[PlacementRequest]], *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        """Return placements for the requests, which are by flavor; `empty`: as if no workload ran.

        For a workload with unhealthy nodes, only the pods on those nodes get new placements. The others continue to
        run, and so do the pods of a replaced slice, whose placement remains in the snapshot.
        """
        ...

    def pod_sets_on_unhealthy_nodes(self, workload: Workload) -> Set[str]:
        """Return the names of the pod sets that have pods on unhealthy nodes."""
        ...

    def fits(self, workload: Workload, held: Workload | None = None) -> bool:
        """Return whether the placement of a workload's admission is available, in addition to the one it held."""
        ...

    def suits(self, workload: Workload) -> bool:
        """Return whether taints and labels allow the pods of an admission on the nodes of their placement."""
        ...

    def add(self, workload: Workload, held: Workload | None = None) -> None:
        """Add the placement of a workload's admission, except what it already held."""
        ...

    def remove(self, workload: Workload, held: Workload | None = None) -> None:
        """Remove a placement that add() added."""
        ...

    def add_all(self, workloads: Iterable[Workload]) -> None:
        """Add the placements of several workloads."""
        ...

    def remove_all(self, workloads: Iterable[Workload]) -> None:
        """Remove the placements of several workloads."""
        ...

    def predicted_admissions(self, workload: Workload) -> Mapping[tuple[str, str], Sequence[str]]:
        """Return, by pod set and node, what each pod of a running workload will be assigned there, as text.

        Pods without a prediction are left out. The call does not affect later decisions.
        """
        ...

    def admits_next(self, key: tuple[str, str], node: str, sent: Mapping[tuple[str, str], SentPods]) -> bool:
        """Return whether the kubelet of a node will admit all pods placed there if one more is sent to it now.

        `key`: the key of the pod's workload and its pod set; `sent`: the pods on the node by the same keys.
        """
        ...

    def copy(self) -> TopologySnapshot:
        """Return a copy that changes independently."""
        ...

    def copy_for_thread(self) -> TopologySnapshot:
        """Return a copy that another thread may use even while this snapshot and its nodes change."""
        ...


class EmptyTopologySnapshot:
    """A cluster without topologies."""

    def has_topology(self, flavor: str) -> bool:  # noqa: ARG002 -- no flavor has one
        """Return False: no flavor has a topology."""
        return False

    def lacks_topology(self, flavor: ResourceFlavor) -> bool:  # noqa: ARG002 -- quotas alone decide
        """Return False: no flavor needs a topology."""
        return False

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:  # noqa: ARG002 -- no flavor has one
        """Return False: no flavor has a level."""
        return False

    def find_topology_assignments(
        self,
        workload: Workload,  # noqa: ARG002 -- no pod is placed
        requests: Mapping[str, Sequence[PlacementRequest]],
        *,
        empty: bool,  # noqa: ARG002 -- no pod is placed
    ) -> TopologyAssignments | TopologyPlacementFailure:
        """Return a failure for the first request: no pods can be placed."""
        for flavor, of_flavor in requests.items():
            return TopologyPlacementFailure(of_flavor[0].pod_set.name, flavor, "no topology is known")
        return {}

    def pod_sets_on_unhealthy_nodes(self, workload: Workload) -> Set[str]:  # noqa: ARG002 -- no pod is placed
        """Return an empty set: no pod is on a known node."""
        return frozenset()

    def fits(self, workload: Workload, held: Workload | None = None) -> bool:  # noqa: ARG002 -- no pod is placed
        """Return True: every workload fits."""
        return True

    def suits(self, workload: Workload) -> bool:  # noqa: ARG002 -- no pod is placed
        """Return True: every placement suits."""
        return True

    def add(self, workload: Workload, held: Workload | None = None) -> None:
        """Do nothing."""

    def remove(self, workload: Workload, held: Workload | None = None) -> None:
        """Do nothing."""

    def add_all(self, workloads: Iterable[Workload]) -> None:
        """Do nothing."""

    def remove_all(self, workloads: Iterable[Workload]) -> None:
        """Do nothing."""

    def predicted_admissions(self, workload: Workload) -> Mapping[tuple[str, str], Sequence[str]]:  # noqa: ARG002
        """Nothing is predicted."""
        return {}

    def admits_next(self, key: tuple[str, str], node: str, sent: Mapping[tuple[str, str], SentPods]) -> bool:  # noqa: ARG002
        """Nothing is predicted."""
        return True

    def copy(self) -> TopologySnapshot:
        """Return another empty snapshot."""
        return EmptyTopologySnapshot()

    def copy_for_thread(self) -> TopologySnapshot:
        """Return another empty snapshot."""
        return EmptyTopologySnapshot()
