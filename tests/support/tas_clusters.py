"""Small clusters with quotas and topologies: two flavors with common nodes."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from support.fit_nodes import admitted_in_sequence
from support.gang_snapshots import info
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.node.node_info import read_node_info
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption, ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import Admission, PodSet, PodSetAdmission, TopologyRequest, Workload
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest, TopologyPlacementFailure
from zonewise_scheduler.quota.topology.types import HOSTNAME, PodSetTopologyRequest
from zonewise_scheduler.tas.flavor_topology import build_flavor_topology
from zonewise_scheduler.tas.tas_snapshot import TASSnapshot
from zonewise_scheduler.tas.zones.kubelet_states import build_kubelet_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.tas.flavor_topology import FlavorTopology
    from zonewise_scheduler.tas.zones.kubelet_states import KubeletStates

LEVELS = ("rack", HOSTNAME)
RACK, HOST, ANY = (
    PodSetTopologyRequest("rack"),
    PodSetTopologyRequest(HOSTNAME),
    PodSetTopologyRequest(unconstrained=True),
)
FLAVORS = (ResourceFlavor("all", topology_name="racks"), ResourceFlavor("fast", {"fast": "yes"}, topology_name="racks"))


class Host(NamedTuple):
    """A host; its CPUs are in millis."""

    name: str
    rack: str
    cpus: int
    fast: bool = True


def flavor_topologies(hosts: Sequence[Host], levels: Sequence[str] = LEVELS) -> list[FlavorTopology]:
    """Return the topologies of both flavors."""
    nodes = NodeInfoTable(
        [
            read_node_info(
                {
                    "metadata": {
                        "name": host.name,
                        "labels": {"rack": host.rack, HOSTNAME: host.name, "fast": "yes" if host.fast else "no"},
                    },
                    "status": {"allocatable": {"cpu": f"{host.cpus}m", "pods": "110"}},
                }
            )
            for host in hosts
        ]
    )
    return [build_flavor_topology(flavor, levels, nodes) for flavor in FLAVORS]


def preempting_queue(name: str, cpus: int, flavors: Sequence[str] = ("all",), cohort: str = "everyone") -> ClusterQueue:
    """Return a queue that may preempt workloads of lower priority, and any workload in its cohort."""
    quotas = (FlavorQuotas(flavor, (("cpu", ResourceQuota(cpus)),)) for flavor in flavors)
    return ClusterQueue(
        name, (resource_group(*quotas),), cohort, preemption=ClusterQueuePreemption("LowerPriority", "Any")
    )


def snapshot_of(queues: Iterable[ClusterQueue], hosts: Sequence[Host], levels: Sequence[str] = LEVELS) -> Snapshot:
    return Snapshot(queues, resource_flavors=FLAVORS, tas_snapshot=TASSnapshot(flavor_topologies(hosts, levels)))


def pods_of(cpus: int, pods: int = 1, request: PodSetTopologyRequest | None = None, name: str = "main") -> PodSet:
    """Return a pod set; `cpus`: milli-CPUs of each pod."""
    topology = TopologyRequest(PodSetTopologyRequest(unconstrained=True) if request is None else request)
    return PodSet(name, pods, {"cpu": cpus}, topology=topology)


def job(name: str, *pod_sets: PodSet, priority: int = 0, created: float = 0.0) -> Workload:
    return Workload("ns", name, pod_sets, name, priority=priority, created_at=created)


def hosts_of(workload: Workload) -> dict[str, dict[str, int]]:
    """Return the number of pods by pod set and host."""
    pod_sets = workload.admission.pod_sets if workload.admission is not None else ()
    return {
        pod_set.name: {domain.values[-1]: domain.pods for domain in pod_set.topology_assignment.domains}
        for pod_set in pod_sets
        if pod_set.topology_assignment is not None
    }


def host_usage(workloads: Iterable[Workload]) -> dict[str, int]:
    """Return the CPUs that workloads use on each host, recomputed."""
    usage: dict[str, int] = {}
    for workload in workloads:
        pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
        for name, hosts in hosts_of(workload).items():
            for host, pods in hosts.items():
                usage[host] = usage.get(host, 0) + pods * pod_sets[name].requests["cpu"]
    return usage


# --- kubelets


class ZonedCluster(NamedTuple):
    """A cluster whose nodes have zones; only the kubelets limit the pods."""

    nodes: NodeInfoTable
    states: dict[str, NodeState]
    tas_snapshot: TASSnapshot
    kubelet_states: KubeletStates

    def admits(self, pod_sets: Iterable[tuple[PodShape, dict[str, int]]]) -> bool:
        """Return whether the kubelets admit the pods on their hosts, one by one and in order."""
        states = dict(self.states)
        for shape, hosts in pod_sets:
            for host, pods in hosts.items():
                for _ in range(pods):
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
    """Return a cluster of fast hosts h0, h1, ...; `racks`: a letter for each host; "": all in rack x."""
    racks = racks or "x" * len(states)
    nodes = NodeInfoTable(
        [info(f"h{row}", {"rack": rack, HOSTNAME: f"h{row}", "fast": "yes"}) for row, rack in enumerate(racks)]
    )
    states_by_name = {f"h{row}": state for row, state in enumerate(states) if state is not None}
    kubelet_states = build_kubelet_states(nodes, states_by_name, allow_unknown=allow_unknown)
    topologies = [build_flavor_topology(flavor, LEVELS, nodes) for flavor in flavors]
    tas_snapshot = TASSnapshot(topologies, kubelet_states=kubelet_states)
    return ZonedCluster(nodes, states_by_name, tas_snapshot, kubelet_states)


def pods_of_shape(
    shape: PodShape, pods: int = 1, request: PodSetTopologyRequest | None = None, name: str = "main", group: str = ""
) -> PodSet:
    """Return a pod set without requests, so that only the kubelets limit it."""
    topology = TopologyRequest(PodSetTopologyRequest(unconstrained=True) if request is None else request, group)
    return PodSet(name, pods, {}, topology=topology, shape=shape)


def find_hosts(
    cluster: ZonedCluster, workload: Workload, *, empty: bool = False
) -> dict[str, dict[str, int]] | TopologyPlacementFailure:
    """Return the number of pods for each host by pod set, or the reason why there is no placement."""
    requests = [PlacementRequest(pod_set, pod_set.pods, "all") for pod_set in workload.pod_sets]
    result = cluster.tas_snapshot.find_topology_assignments(workload, {"all": requests}, empty=empty)
    if isinstance(result, TopologyPlacementFailure):
        return result
    return {
        name: {domain.values[-1]: domain.pods for domain in assignment.domains} for name, assignment in result.items()
    }


def start(cluster: ZonedCluster, workload: Workload) -> Workload:
    """Start a workload that has a placement."""
    requests = [PlacementRequest(pod_set, pod_set.pods, "all") for pod_set in workload.pod_sets]
    assignments = cluster.tas_snapshot.find_topology_assignments(workload, {"all": requests}, empty=False)
    assert not isinstance(assignments, TopologyPlacementFailure)
    pod_sets = (
        PodSetAdmission(pod_set.name, {"pods": "all"}, {}, pod_set.pods, assignments[pod_set.name])
        for pod_set in workload.pod_sets
    )
    running = replace(workload, admission=Admission("a", tuple(pod_sets)))
    cluster.tas_snapshot.add(running)
    return running


def zone_counts(cluster: ZonedCluster, workload: Workload) -> dict[str, dict[tuple[str, ...], int]]:
    """Return the predicted number of pods by pod set, node and zones; pods on nodes without a report are left out."""
    counts: defaultdict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for (pod_set, node), assignments in cluster.tas_snapshot.predicted_admissions(workload).items():
        zones = ("".join(re.findall(r"zones=(\S+)", text)) for text in assignments)
        counts[pod_set].update((node, zone) for zone in zones)
    return {pod_set: dict(by_zones) for pod_set, by_zones in counts.items()}


def placement_exists(
    states: Sequence[NodeState], racks: str, shape: PodShape, pod_count: int, request: PodSetTopologyRequest
) -> bool:
    """Return whether any placement exists for a request for a rack, a host or neither, by exhaustive search."""
    choices = [range(admitted_in_sequence(state, shape, pod_count) + 1) for state in states]
    for counts in product(*choices):
        used_rows = [row for row, pods in enumerate(counts) if pods]
        domain_counts = {"rack": len({racks[row] for row in used_rows}), HOSTNAME: len(used_rows)}
        if sum(counts) == pod_count and domain_counts.get(request.required, 1) == 1:
            return True
    return False
