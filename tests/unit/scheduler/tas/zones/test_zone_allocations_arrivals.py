"""Pods that are sent to a node arrive in any order; the kubelet rejects none of those that the allocations pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_nodes import clusters, pods
from support.fit_nodes import STRICT, container, node, pod
from support.tas_clusters import find_hosts, job, pods_of_shape, start, zoned_cluster
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.quota.hierarchy.topology_snapshot import SentPods, TopologyPlacementFailure
from zonewise_scheduler.tas.zones.pod_allocation import pod_allocation
from zonewise_scheduler.tas.zones.reported_node import ReportedNode

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.tas.zones.pod_allocation import Allocation, PodSetKey


class Arrivals:
    """A node, its kubelet, and pods that are sent to it."""

    def __init__(self, idle: NodeState, gangs: list[tuple[PodShape, int]]) -> None:
        self.cluster = zoned_cluster([idle])
        self.idle = self.actual = idle
        self.shapes: dict[PodSetKey, PodShape] = {}
        self.held: list[PodSetKey] = []
        self.on_way: list[PodSetKey] = []
        self.sent: dict[PodSetKey, SentPods] = {}
        self.holdings: dict[PodSetKey, tuple[Allocation, ...]] = {}
        for i, (shape, count) in enumerate(gangs):
            workload = job(f"w{i}", pods_of_shape(shape, count))
            if not isinstance(find_hosts(self.cluster, workload), TopologyPlacementFailure):
                key = start(self.cluster, workload).key, "main"
                self.shapes[key] = shape
                self.held += [key] * count

    def may_send(self, key: PodSetKey) -> bool:
        return self.cluster.tas_snapshot.admits_next(key, "h0", self.sent)

    def send(self, key: PodSetKey) -> None:
        self.held.remove(key)
        self.on_way.append(key)
        self.sent[key] = SentPods(self.sent.get(key, SentPods(0)).pods + 1)

    def arrive(self, key: PodSetKey) -> None:
        """Let the kubelet admit the pod."""
        self.on_way.remove(key)
        verdict = admit(self.actual, self.shapes[key])
        assert verdict.after is not None, f"{key} is rejected"
        allocation = pod_allocation(self.actual, verdict)._replace(assignments=None)
        self.actual = verdict.after
        self.holdings[key] = (*self.holdings.get(key, ()), allocation)

    def report(self) -> None:
        self.cluster.kubelet_states.report(0, ReportedNode(self.idle, self.actual, dict(self.holdings)))


def guaranteed_pods(most_cpus: int) -> st.SearchStrategy[PodShape]:
    return st.integers(1, most_cpus).map(lambda cpus: pod(container(cpus=cpus, gib=1)))


@settings(max_examples=100)
@given(clusters(most=1), st.lists(st.tuples(pods(), st.integers(1, 4)), min_size=1, max_size=4), st.data())
def test_no_pod_is_rejected_on_any_node(
    states: list[NodeState], gangs: list[tuple[PodShape, int]], data: st.DataObject
) -> None:
    send_all(Arrivals(states[0], gangs), data)


@settings(max_examples=300)
@given(st.lists(st.tuples(guaranteed_pods(7), st.integers(1, 4)), min_size=2, max_size=6), st.data())
def test_no_pod_is_rejected_on_a_full_node(gangs: list[tuple[PodShape, int]], data: st.DataObject) -> None:
    """Zones have 14 and 16 CPUs, and are filled with as many whole gangs as fit."""
    send_all(Arrivals(node(2, 8, reserved=3, **STRICT), gangs), data)


def send_all(arrivals: Arrivals, data: st.DataObject) -> None:
    """Send pods that may be sent and let them arrive, in any order, until all have arrived."""
    while arrivals.held or arrivals.on_way:
        passing = [key for key in dict.fromkeys(arrivals.held) if arrivals.may_send(key)]
        assert passing or arrivals.on_way, "each pod waits for another one"
        sends = bool(passing) and (not arrivals.on_way or data.draw(st.booleans()))
        if sends:
            arrivals.send(data.draw(st.sampled_from(passing)))
            continue
        arrivals.arrive(data.draw(st.sampled_from(arrivals.on_way)))
        if not arrivals.on_way or data.draw(st.booleans()):
            arrivals.report()


def test_a_pod_waits_if_an_earlier_one_needs_its_zone() -> None:
    """Zones have 14 and 16 CPUs: pods of 3, 3, 4 and 4 fill the first zone, and four of 4 the second."""
    idle = node(2, 8, reserved=3, **STRICT)
    small, large = pod(container(cpus=3, gib=1)), pod(container(cpus=4, gib=1))
    arrivals = Arrivals(idle, [(small, 2), (large, 6)])
    first, second = dict.fromkeys(arrivals.held)
    assert len(arrivals.held) == 8
    for _ in range(2):
        assert arrivals.may_send(second)
        arrivals.send(second)
    assert not arrivals.may_send(second)
    for _ in range(2):
        assert arrivals.may_send(first)
        arrivals.send(first)
    assert not arrivals.may_send(second)
    for key in (first, first):
        arrivals.arrive(key)
    arrivals.report()
    for _ in range(4):
        assert arrivals.may_send(second)
        arrivals.send(second)
    for _ in range(6):
        arrivals.arrive(second)
