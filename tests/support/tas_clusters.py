"""Small clusters with quotas and topologies: two flavors that have nodes in common."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from support.gang_snapshots import info
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.node.node_info import read_node_info
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption, ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import Admission, PodSet, PodSetAdmission, TopologyRequest, Workload
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest, TopologyPlacementFailure
from zonewise_scheduler.quota.topology.types import HOSTNAME, PodSetTopologyRequest, TopologyAssignment
from zonewise_scheduler.tas.flavor_topology import build_flavor_topology
from zonewise_scheduler.tas.tas_snapshot import TASSnapshot
from zonewise_scheduler.tas.zones.kubelet_states import build_kubelet_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.tas.flavor_topology import FlavorTopology

LEVELS = ("rack", HOSTNAME)
FLAVORS = (ResourceFlavor("all", topology_name="racks"), ResourceFlavor("fast", {"fast": "yes"}, topology_name="racks"))


class Host(NamedTuple):
    name: str
    rack: str
    cpus: int
    fast: bool = True


def flavor_topologies(hosts: Sequence[Host], levels: Sequence[str] = LEVELS) -> list[FlavorTopology]:
    """The hosts of both flavors."""
    nodes = NodeInfoTable(
        [
            read_node_info(
                {
                    "metadata": {
                        "name": one.name,
                        "labels": {"rack": one.rack, HOSTNAME: one.name, "fast": "yes" if one.fast else "no"},
                    },
                    "status": {"allocatable": {"cpu": f"{one.cpus}m", "pods": "110"}},
                }
            )
            for one in hosts
        ]
    )
    return [build_flavor_topology(one, levels, nodes) for one in FLAVORS]


def queue(name: str, cpus: int, flavors: Sequence[str] = ("all",), cohort: str = "everyone") -> ClusterQueue:
    """A queue that may preempt whom it can."""
    quotas = (FlavorQuotas(one, (("cpu", ResourceQuota(cpus)),)) for one in flavors)
    return ClusterQueue(
        name, (resource_group(*quotas),), cohort, preemption=ClusterQueuePreemption("LowerPriority", "Any")
    )


def snapshot_of(queues: Iterable[ClusterQueue], hosts: Sequence[Host], levels: Sequence[str] = LEVELS) -> Snapshot:
    return Snapshot(queues, resource_flavors=FLAVORS, tas_snapshot=TASSnapshot(flavor_topologies(hosts, levels)))


def pods_of(cpus: int, pods: int = 1, request: PodSetTopologyRequest | None = None, name: str = "main") -> PodSet:
    """Pods of so many thousandths of a CPU."""
    topology = TopologyRequest(PodSetTopologyRequest(unconstrained=True) if request is None else request)
    return PodSet(name, pods, {"cpu": cpus}, topology=topology)


def job(name: str, *pod_sets: PodSet, priority: int = 0, created: float = 0.0) -> Workload:
    return Workload("ns", name, pod_sets, name, priority=priority, created_at=created)


def hosts_of(workload: Workload) -> dict[str, dict[str, int]]:
    """By pod set, how many pods each host has."""
    sets = workload.admission.pod_sets if workload.admission is not None else ()
    return {
        one.name: {domain.values[-1]: domain.pods for domain in one.topology_assignment.domains}
        for one in sets
        if isinstance(one.topology_assignment, TopologyAssignment)
    }


def host_usage(workloads: Iterable[Workload]) -> dict[str, int]:
    """What the pods of workloads take of each host, added up from nothing."""
    found: dict[str, int] = {}
    for one in workloads:
        specs = {pods.name: pods for pods in one.pod_sets}
        for name, hosts in hosts_of(one).items():
            for host, count in hosts.items():
                found[host] = found.get(host, 0) + count * specs[name].requests["cpu"]
    return found


# --- kubelets


class ZonedCluster(NamedTuple):
    """A cluster of nodes with zones, and room for anything as a whole."""

    nodes: NodeInfoTable
    states: dict[str, NodeState]
    places: TASSnapshot

    def admits(self, sets: Iterable[tuple[PodShape, dict[str, int]]]) -> bool:
        """Put pods on their hosts one by one, in order, as their kubelets would."""
        states = dict(self.states)
        for shape, hosts in sets:
            for host, count in hosts.items():
                for _ in range(count):
                    after = admit(states[host], shape).after
                    if after is None:
                        return False
                    states[host] = after
        return True


def zoned_cluster(
    states: Sequence[NodeState | None],
    racks: str = "",
    flavors: Sequence[ResourceFlavor] = FLAVORS[:1],
    *,
    allow_unknown: bool = True,
) -> ZonedCluster:
    """Make one of hosts h0, h1, ..., all fast, by rack: all in x, or as many letters as there are hosts."""
    racks = racks or "x" * len(states)
    nodes = NodeInfoTable(
        [info(f"h{at}", {"rack": rack, HOSTNAME: f"h{at}", "fast": "yes"}) for at, rack in enumerate(racks)]
    )
    known = {f"h{at}": state for at, state in enumerate(states) if state is not None}
    kubelets = build_kubelet_states(nodes, known, allow_unknown=allow_unknown)
    return ZonedCluster(
        nodes,
        known,
        TASSnapshot([build_flavor_topology(one, LEVELS, nodes) for one in flavors], kubelet_states=kubelets),
    )


def pods_of_shape(
    shape: PodShape, pods: int = 1, request: PodSetTopologyRequest | None = None, name: str = "main", group: str = ""
) -> PodSet:
    """Pods of a shape, of which only the kubelets decide."""
    topology = TopologyRequest(PodSetTopologyRequest(unconstrained=True) if request is None else request, group)
    return PodSet(name, pods, {}, topology=topology, shape=shape)


def find_hosts(
    cluster: ZonedCluster, one: Workload, *, empty: bool = False
) -> dict[str, dict[str, int]] | TopologyPlacementFailure:
    """By pod set, how many pods each host would get."""
    wishes = [PlacementRequest(pods, pods.pods, "all") for pods in one.pod_sets]
    places = cluster.places.find_topology_assignments(one, {"all": wishes}, empty=empty)
    if isinstance(places, TopologyPlacementFailure):
        return places
    return {
        name: {domain.values[-1]: domain.pods for domain in at.domains}
        for name, at in places.items()
        if isinstance(at, TopologyAssignment)
    }


def start(cluster: ZonedCluster, one: Workload) -> Workload:
    """Start a workload where it finds places."""
    wishes = [PlacementRequest(pods, pods.pods, "all") for pods in one.pod_sets]
    places = cluster.places.find_topology_assignments(one, {"all": wishes}, empty=False)
    assert not isinstance(places, TopologyPlacementFailure)
    sets = (PodSetAdmission(pods.name, {"pods": "all"}, {}, pods.pods, places[pods.name]) for pods in one.pod_sets)
    new = replace(one, admission=Admission("a", tuple(sets)))
    cluster.places.add(new)
    return new


def zone_counts(cluster: ZonedCluster, one: Workload) -> dict[str, dict[tuple[str, ...], int]]:
    """By pod set, how many pods are in each zone."""
    zones = cluster.places.zone_assignments(one)
    return {name: {domain.values: domain.pods for domain in at.domains} for name, at in zones.items()}
