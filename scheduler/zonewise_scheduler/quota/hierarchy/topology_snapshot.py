"""The interface of quotas to topology-aware scheduling: where the pods of a workload can be placed.

Upstream has this in pkg/cache/scheduler/clusterqueue_snapshot.go FindTopologyAssignmentsForWorkload and Fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from zonewise_scheduler.quota.topology.types import TopologyAssignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
    from zonewise_scheduler.quota.api.workload_types import PodSet, TopologyRequest, Workload


class PlacementRequest(NamedTuple):
    """Pods of one pod set that are to be placed in the topology of a flavor."""

    pod_set: PodSet
    pods: int
    flavor: str


class TopologyPlacementFailure(NamedTuple):
    """A pod set has no placement: the reason as a sentence and as values. A slice of one pod is a pod."""

    pod_set: str
    flavor: str
    reason: str
    """A sentence."""
    level: str = ""
    """The level of which one domain must hold all slices, a label key; "": all domains together have too little."""
    domain: tuple[str, ...] = ()
    """The domain of that level that holds the most, by its values from the outermost level on. A zone is its number."""
    fitting_slices: int = 0
    """The number of slices that fit into that domain, or into all."""
    slice_count: int = 0
    """The number of slices of the pod set; 0: the reason is not what is available."""
    slice_size: int = 1
    """Pods of a slice."""
    resource: str = ""
    """The resource that is scarcest on most nodes that cannot hold a pod; "": none."""
    node: str = ""
    """A node that holds as many pods as any other, and whose kubelet would reject more."""
    kubelet_reason: str = ""
    """What that node lacks: "needs 6 CPUs in one zone; zone 0 has 4 free, zone 1 has 4"."""


class SentPods(NamedTuple):
    """The pods of one pod set that no gate holds from one node, and that have not ended."""

    pods: int
    settled: int = 0
    """Those that the kubelet has admitted so long ago that the node's report has them."""


TopologyAssignments = dict[str, TopologyAssignment]
"""By pod set: where its pods go."""


class TopologySnapshot(Protocol):
    """The topologies of all flavors with the placements of running workloads."""

    def has_topology(self, flavor: str) -> bool:
        """Tell whether the flavor has a topology that is known."""
        ...

    def lacks_topology(self, flavor: ResourceFlavor) -> bool:
        """Tell whether the flavor names a Topology that is absent or invalid. False: or nothing is placed at all."""
        ...

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:
        """Tell whether its topology has the levels of the request."""
        ...

    def find_topology_assignments(
        self, workload: Workload, requests: Mapping[str, Sequence[PlacementRequest]], *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        """Return placements for the requests, by flavor; `empty`: as if no workload ran.

        For a workload with unhealthy nodes, only the pods on those nodes are placed anew. The rest run on.
        """
        ...

    def pod_sets_on_unhealthy_nodes(self, workload: Workload) -> Set[str]:
        """Return the names of the pod sets that have pods on unhealthy nodes."""
        ...

    def fits(self, workload: Workload, held: Workload | None = None) -> bool:
        """Tell whether the placement of a workload's admission is available, beyond the placement that it held."""
        ...

    def suits(self, workload: Workload) -> bool:
        """Tell whether taints and labels let the pods of an admission onto the nodes of their placement."""
        ...

    def add(self, workload: Workload, held: Workload | None = None) -> None:
        """Add the placement of a workload's admission, beyond the placement that it held."""
        ...

    def remove(self, workload: Workload, held: Workload | None = None) -> None:
        """Remove what add() added."""
        ...

    def add_all(self, workloads: Iterable[Workload]) -> None:
        """Add the placements of several workloads."""
        ...

    def remove_all(self, workloads: Iterable[Workload]) -> None:
        """Remove the placements of several workloads."""
        ...

    def predicted_admissions(self, workload: Workload) -> Mapping[tuple[str, str], Sequence[str]]:
        """Return by pod set and node what each pod of a running workload will be assigned there, as text.

        Pods of which nothing is predicted are left out. The call changes no later decision.
        """
        ...

    def admits_next(self, key: tuple[str, str], node: str, sent: Mapping[tuple[str, str], SentPods]) -> bool:
        """Tell whether the kubelet of a node will admit all pods placed there if one more is sent to it now.

        `key`: of the pod's workload, and its pod set; `sent`: the pods on the node by the same keys.
        """
        ...

    def copy(self) -> TopologySnapshot:
        """Return a copy that changes independently."""
        ...

    def copy_for_thread(self) -> TopologySnapshot:
        """Return a copy that another thread may use while this one changes, and so may its nodes."""
        ...


class EmptyTopologySnapshot:
    """A cluster without topologies."""

    def has_topology(self, flavor: str) -> bool:  # noqa: ARG002 -- no flavor has one
        """No flavor has a topology."""
        return False

    def lacks_topology(self, flavor: ResourceFlavor) -> bool:  # noqa: ARG002 -- quotas alone decide
        """No flavor needs one."""
        return False

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:  # noqa: ARG002 -- no flavor has one
        """No flavor has a level."""
        return False

    def find_topology_assignments(
        self,
        workload: Workload,  # noqa: ARG002 -- no pod is placed
        requests: Mapping[str, Sequence[PlacementRequest]],
        *,
        empty: bool,  # noqa: ARG002 -- no pod is placed
    ) -> TopologyAssignments | TopologyPlacementFailure:
        """No request can be placed."""
        for flavor, of_flavor in requests.items():
            return TopologyPlacementFailure(of_flavor[0].pod_set.name, flavor, "no topology is known")
        return {}

    def pod_sets_on_unhealthy_nodes(self, workload: Workload) -> Set[str]:  # noqa: ARG002 -- no pod is placed
        """No pod is on a known node."""
        return frozenset()

    def fits(self, workload: Workload, held: Workload | None = None) -> bool:  # noqa: ARG002 -- no pod is placed
        """Every workload fits."""
        return True

    def suits(self, workload: Workload) -> bool:  # noqa: ARG002 -- no pod is placed
        """Every placement suits."""
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
