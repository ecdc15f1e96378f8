"""Assignments on random small trees: every result complies with its request, and failures have no assignment."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.tas_trees import KEYS, Host, flavor_snapshot_of
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest, SliceConstraint, TopologyAssignment
from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments, find_topology_assignments_for_flavor
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
from zonewise_scheduler.tas.tree.tas_usage import TASUsage, with_assignment_usage
from zonewise_scheduler.tas.tree.topology_assignments import truncate_assignment
from zonewise_scheduler.tas.types import TASFeatureGates, TASPodSetRequests


class Gang(NamedTuple):
    """Workers and, optionally, their leader."""

    sets: tuple[TASPodSetRequests, ...]

    @property
    def workers(self) -> TASPodSetRequests:
        return self.sets[0]

    @property
    def request(self) -> PodSetTopologyRequest:
        assert self.workers.topology_request is not None
        return self.workers.topology_request


@st.composite
def hosts(draw: st.DrawFn, max_count: int = 9) -> list[Host]:
    count = draw(st.integers(1, max_count))
    domain = st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"))
    return [Host(f"h{i}", *draw(domain), draw(st.integers(0, 5))) for i in range(count)]


@st.composite
def requests(draw: st.DrawFn) -> PodSetTopologyRequest:
    kind, level = draw(st.sampled_from(["required", "preferred", "unconstrained"])), draw(st.integers(0, 2))
    layers: list[SliceConstraint] = []
    size = draw(st.sampled_from([0, 1, 2, 4]))
    if size:
        slice_level = draw(st.integers(level if kind != "unconstrained" else 0, 2))
        layers.append(SliceConstraint(KEYS[slice_level], size))
        if slice_level < 2 and draw(st.booleans()):
            layers.append(
                SliceConstraint(KEYS[draw(st.integers(slice_level + 1, 2))], draw(st.sampled_from([1, size // 2 or 1])))
            )
    if kind == "unconstrained":
        return PodSetTopologyRequest(unconstrained=not layers, slice_constraints=tuple(layers))
    if kind == "required":
        return PodSetTopologyRequest(required=KEYS[level], slice_constraints=tuple(layers))
    return PodSetTopologyRequest(preferred=KEYS[level], slice_constraints=tuple(layers))


@st.composite
def gangs(draw: st.DrawFn) -> Gang:
    request = draw(requests())
    size = request.slice_constraints[0].size if request.slice_constraints else 1
    workers = TASPodSetRequests(
        "workers", size * draw(st.integers(1, 8 // size + 1)), {"cpu": draw(st.integers(1, 2))}, request
    )
    if not draw(st.booleans()):
        return Gang((workers,))
    leader = TASPodSetRequests("leader", 1, {"cpu": draw(st.integers(1, 4))}, request, group_name="one")
    return Gang((workers._replace(group_name="one"), leader))


GATES = st.builds(TASFeatureGates, profile_mixed=st.booleans(), balanced_placement=st.booleans())


def pods_by_domain(assignment: TopologyAssignment, nodes: list[Host], level: str) -> dict[tuple[str, ...], int]:
    """Return the number of pods in each domain of a level."""
    paths = {host.name: host.path[: KEYS.index(level) + 1] for host in nodes}
    counts: dict[tuple[str, ...], int] = {}
    for domain in assignment.domains:
        path = paths[domain.values[-1]]
        counts[path] = counts.get(path, 0) + domain.pods
    return counts


def check_assignments(nodes: list[Host], gang: Gang, result: TASAssignments) -> None:
    """Check that all pods are assigned within capacity, in one required domain and in whole slices."""
    workers = result.assignments["workers"]
    assert workers.pod_count == gang.workers.pod_count
    usage: dict[str, int] = {}
    for pod_set in gang.sets:
        assignment = result.assignments[pod_set.name]
        assert assignment.pod_count == pod_set.pod_count
        domains = [domain.values for domain in assignment.domains]
        assert len(set(domains)) == len(domains)
        for domain in assignment.domains:
            usage[domain.values[-1]] = (
                usage.get(domain.values[-1], 0) + domain.pods * pod_set.single_pod_requests["cpu"]
            )
    assert all(usage.get(host.name, 0) <= host.cpus for host in nodes)
    if gang.request.required:
        level = gang.request.required
        assert (
            len(
                {
                    path
                    for assignment in result.assignments.values()
                    for path in pods_by_domain(assignment, nodes, level)
                }
            )
            == 1
        )
    for layer in gang.request.slice_constraints:
        assert all(pod_set % layer.size == 0 for pod_set in pods_by_domain(workers, nodes, layer.level).values())


@settings(max_examples=300)
@given(hosts(), gangs(), GATES)
def test_assignments_comply_with_the_request(nodes: list[Host], gang: Gang, gates: TASFeatureGates) -> None:
    result = find_topology_assignments_for_flavor(flavor_snapshot_of(nodes), gang.sets, gates)
    if isinstance(result, TASAssignments):
        check_assignments(nodes, gang, result)


@given(hosts(), gangs(), GATES, st.integers(1, 3))
def test_only_the_last_slice_has_fewer_pods(nodes: list[Host], gang: Gang, gates: TASFeatureGates, absent: int) -> None:
    """Pods that do not fill their last slice are placed like whole slices, without the highest ranks."""
    layers = gang.request.slice_constraints
    count = gang.workers.pod_count - min(absent, layers[0].size - 1 if layers else 0)
    fewer = Gang((gang.workers._replace(pod_count=count), *gang.sets[1:]))
    whole, result = (
        find_topology_assignments_for_flavor(flavor_snapshot_of(nodes), each.sets, gates) for each in (gang, fewer)
    )
    assert isinstance(result, TASAssignments) is isinstance(whole, TASAssignments)
    if isinstance(result, TASAssignments) and isinstance(whole, TASAssignments):
        workers = result.assignments["workers"]
        assert workers == truncate_assignment(whole.assignments["workers"], count)
        for level, size in layers:
            slices = sum(-(-pods // size) for pods in pods_by_domain(workers, nodes, level).values())
            assert slices == -(-count // size)


def assignment_exists(nodes: list[Host], gang: Gang) -> bool:
    """Return whether any assignment exists, by trying all numbers of pods on all hosts, and the leader on each."""
    request, (workers, *leader) = gang.request, gang.sets
    leader_hosts: list[Host | None] = [*nodes] if leader else [None]
    for leader_host in leader_hosts:
        free = {
            host.name: host.cpus - (leader[0].single_pod_requests["cpu"] if host is leader_host else 0)
            for host in nodes
        }
        if min(free.values()) < 0:
            continue
        choices = [range(free[host.name] // workers.single_pod_requests["cpu"] + 1) for host in nodes]
        for counts in product(*choices):
            if sum(counts) == workers.pod_count and is_valid(nodes, counts, leader_host, request):
                return True
    return False


def is_valid(
    nodes: list[Host], counts: tuple[int, ...], leader_host: Host | None, request: PodSetTopologyRequest
) -> bool:
    """Return whether the pods are in one required domain and in whole slices."""
    if request.required:
        depth = KEYS.index(request.required) + 1
        used = [host for host, count in zip(nodes, counts, strict=True) if count or host is leader_host]
        if len({host.path[:depth] for host in used}) > 1:
            return False
    for layer in request.slice_constraints:
        depth = KEYS.index(layer.level) + 1
        sums: dict[tuple[str, ...], int] = {}
        for host, count in zip(nodes, counts, strict=True):
            sums[host.path[:depth]] = sums.get(host.path[:depth], 0) + count
        if any(total % layer.size for total in sums.values()):
            return False
    return True


@settings(max_examples=300)
@given(hosts(max_count=4), gangs(), GATES)
def test_assignment_is_found_exactly_if_one_exists(nodes: list[Host], gang: Gang, gates: TASFeatureGates) -> None:
    """Requests are required, preferred or unconstrained, with slice layers and a leader."""
    assert isinstance(
        find_topology_assignments_for_flavor(flavor_snapshot_of(nodes), gang.sets, gates), TASAssignments
    ) is assignment_exists(nodes, gang)


@given(hosts(), gangs(), GATES, st.randoms(use_true_random=False))
def test_result_is_independent_of_node_order(
    nodes: list[Host], gang: Gang, gates: TASFeatureGates, random: object
) -> None:
    shuffled = list(nodes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    result, shuffled_result = (
        find_topology_assignments_for_flavor(flavor_snapshot_of(hosts_in_order), gang.sets, gates)
        for hosts_in_order in (nodes, shuffled)
    )
    if isinstance(result, TASAssignments):
        assert isinstance(shuffled_result, TASAssignments)
        assert shuffled_result.assignments == result.assignments
    else:
        assert str(shuffled_result) == str(result)


@given(hosts(), gangs())
def test_failure_has_the_exact_fit_count(nodes: list[Host], gang: Gang) -> None:
    """Without a leader, a request for that many slices succeeds, and a request for one more fails."""
    workers = gang.workers._replace(group_name="")
    failure = find_topology_assignments_for_flavor(flavor_snapshot_of(nodes), [workers])
    if isinstance(failure, TopologyAssignmentFailure):
        assert failure.pod_set == "workers"
        assert failure.level == gang.request.required
        assert failure.fit_count < failure.slice_count == workers.pod_count // failure.slice_size
        for excess in (0, 1):
            pod_set = workers._replace(pod_count=(failure.fit_count + excess) * failure.slice_size)
            assert isinstance(
                find_topology_assignments_for_flavor(flavor_snapshot_of(nodes), [pod_set]), TopologyAssignmentFailure
            ) is bool(excess)


@given(hosts(), gangs(), st.integers(1, 3))
def test_assumed_usage_counts(nodes: list[Host], gang: Gang, times: int) -> None:
    """Repeated assignments of one gang remain within capacity."""
    snapshot, assumed_usage = flavor_snapshot_of(nodes), TASUsage()
    usage = np.zeros(len(nodes), np.int64)
    for _ in range(times):
        result = find_topology_assignments_for_flavor(snapshot, gang.sets, assumed_usage=assumed_usage)
        if isinstance(result, TopologyAssignmentFailure):
            break
        for pod_set in gang.sets:
            for domain in result.assignments[pod_set.name].domains:
                usage[[host.name for host in nodes].index(domain.values[-1])] += (
                    domain.pods * pod_set.single_pod_requests["cpu"]
                )
            assumed_usage = with_assignment_usage(
                snapshot.tree, assumed_usage, result.assignments[pod_set.name], pod_set.single_pod_requests
            )
    assert (usage <= [host.cpus for host in nodes]).all()


@given(hosts(), st.lists(gangs(), min_size=1, max_size=2), GATES, st.data())
def test_incremental_counts_equal_recomputed_counts(
    nodes: list[Host], gangs_to_assign: list[Gang], gates: TASFeatureGates, data: st.DataObject
) -> None:
    """The counts are equal after any changes of usage and any order of requests."""
    cached = flavor_snapshot_of(nodes)
    usage = {"cpu": np.zeros(len(nodes), np.int64)}
    changes = st.dictionaries(st.integers(0, len(nodes) - 1), st.integers(0, 4), max_size=3)
    for _ in range(4):
        usage = {"cpu": usage["cpu"].copy()}
        for host, amount in data.draw(changes).items():
            usage["cpu"][host] = amount
        for gang in data.draw(st.permutations(gangs_to_assign)):
            fresh = flavor_snapshot_of(nodes).with_usage(usage)
            assert find_topology_assignments_for_flavor(
                cached.with_usage(usage), gang.sets, gates
            ) == find_topology_assignments_for_flavor(fresh, gang.sets, gates)
