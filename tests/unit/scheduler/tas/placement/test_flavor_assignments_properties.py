"""place() on any small tree: what it finds keeps every promise, and what it refuses has no place."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.tas_trees import KEYS, Host, supply_of
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest, SliceConstraint, TopologyAssignment
from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments, find_topology_assignments_for_flavor
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
from zonewise_scheduler.tas.tree.tas_usage import TASUsage, with_assignment_usage
from zonewise_scheduler.tas.types import TASFeatureGates, TASPodSetRequests

BLOCK, RACK, HOST = KEYS


class Gang(NamedTuple):
    """Workers, and maybe their leader."""

    sets: tuple[TASPodSetRequests, ...]

    @property
    def workers(self) -> TASPodSetRequests:
        return self.sets[0]

    @property
    def request(self) -> PodSetTopologyRequest:
        assert self.workers.topology_request is not None
        return self.workers.topology_request


@st.composite
def hosts(draw: st.DrawFn, most: int = 9) -> list[Host]:
    count = draw(st.integers(1, most))
    place = st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"))
    return [Host(f"h{number}", *draw(place), draw(st.integers(0, 5))) for number in range(count)]


@st.composite
def requests(draw: st.DrawFn) -> PodSetTopologyRequest:
    kind, level = draw(st.sampled_from(["required", "preferred", "unconstrained"])), draw(st.integers(0, 2))
    layers: list[SliceConstraint] = []
    size = draw(st.sampled_from([0, 1, 2, 4]))
    if size:
        at = draw(st.integers(level if kind != "unconstrained" else 0, 2))
        layers.append(SliceConstraint(KEYS[at], size))
        if at < 2 and draw(st.booleans()):
            layers.append(
                SliceConstraint(KEYS[draw(st.integers(at + 1, 2))], draw(st.sampled_from([1, size // 2 or 1])))
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


OPTIONS = st.builds(TASFeatureGates, profile_mixed=st.booleans(), balanced_placement=st.booleans())


def pods_in(found: TopologyAssignment, nodes: list[Host], level: str) -> dict[tuple[str, ...], int]:
    """How many pods each domain of a level has."""
    paths = {host.name: host.path[: KEYS.index(level) + 1] for host in nodes}
    counts: dict[tuple[str, ...], int] = {}
    for domain in found.domains:
        path = paths[domain.values[-1]]
        counts[path] = counts.get(path, 0) + domain.pods
    return counts


def check(nodes: list[Host], gang: Gang, found: TASAssignments) -> None:
    """All pods are placed, within capacity, in one required domain, and slices are whole."""
    workers = found.assignments["workers"]
    assert workers.pod_count == gang.workers.pod_count
    used: dict[str, int] = {}
    for pods in gang.sets:
        assignment = found.assignments[pods.name]
        assert assignment.pod_count == pods.pod_count
        names = [domain.values for domain in assignment.domains]
        assert len(set(names)) == len(names)
        for domain in assignment.domains:
            used[domain.values[-1]] = used.get(domain.values[-1], 0) + domain.pods * pods.single_pod_requests["cpu"]
    assert all(used.get(host.name, 0) <= host.cpus for host in nodes)
    if gang.request.required:
        level = gang.request.required
        assert len({path for one in found.assignments.values() for path in pods_in(one, nodes, level)}) == 1
    for layer in gang.request.slice_constraints:
        assert all(pods % layer.size == 0 for pods in pods_in(workers, nodes, layer.level).values())


@settings(max_examples=300)
@given(hosts(), gangs(), OPTIONS)
def test_what_is_found_keeps_all_promises(nodes: list[Host], gang: Gang, options: TASFeatureGates) -> None:
    found = find_topology_assignments_for_flavor(supply_of(nodes), gang.sets, options)
    if isinstance(found, TASAssignments):
        check(nodes, gang, found)


def exists(nodes: list[Host], gang: Gang) -> bool:
    """Whether there is any place at all, by trying every number of pods on every host, and the leader on each."""
    request, (workers, *leader) = gang.request, gang.sets
    homes: list[Host | None] = [*nodes] if leader else [None]
    for home in homes:
        free = {host.name: host.cpus - (leader[0].single_pod_requests["cpu"] if host is home else 0) for host in nodes}
        if min(free.values()) < 0:
            continue
        choices = [range(free[host.name] // workers.single_pod_requests["cpu"] + 1) for host in nodes]
        for counts in product(*choices):
            if sum(counts) == workers.pod_count and keeps(nodes, counts, home, request):
                return True
    return False


def keeps(nodes: list[Host], counts: tuple[int, ...], home: Host | None, request: PodSetTopologyRequest) -> bool:
    """Whether such numbers of pods are in one required domain, with slices whole."""
    if request.required:
        depth = KEYS.index(request.required) + 1
        used = [host for host, count in zip(nodes, counts, strict=True) if count or host is home]
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
@given(hosts(most=4), gangs(), OPTIONS)
def test_a_place_is_found_exactly_if_there_is_one(nodes: list[Host], gang: Gang, options: TASFeatureGates) -> None:
    """Whatever the request: required, preferred, unconstrained, slices in layers, a leader."""
    assert isinstance(
        find_topology_assignments_for_flavor(supply_of(nodes), gang.sets, options), TASAssignments
    ) is exists(nodes, gang)


@given(hosts(), gangs(), OPTIONS, st.randoms(use_true_random=False))
def test_the_order_of_nodes_does_not_matter(
    nodes: list[Host], gang: Gang, options: TASFeatureGates, random: object
) -> None:
    moved = list(nodes)
    random.shuffle(moved)  # type: ignore[attr-defined]
    found, other = (find_topology_assignments_for_flavor(supply_of(one), gang.sets, options) for one in (nodes, moved))
    if isinstance(found, TASAssignments):
        assert isinstance(other, TASAssignments)
        assert other.assignments == found.assignments
    else:
        assert str(other) == str(found)


@given(hosts(), gangs())
def test_a_refusal_tells_how_many_fit(nodes: list[Host], gang: Gang) -> None:
    """Without a leader, as many slices as it names are placed when only so many are asked for, and one more is not."""
    workers = gang.workers._replace(group_name="")
    found = find_topology_assignments_for_flavor(supply_of(nodes), [workers])
    if isinstance(found, TopologyAssignmentFailure):
        assert found.pod_set == "workers"
        assert found.level == gang.request.required
        assert found.fit_count < found.slice_count == workers.pod_count // found.slice_size
        for more in (0, 1):
            asked = workers._replace(pod_count=(found.fit_count + more) * found.slice_size)
            assert isinstance(
                find_topology_assignments_for_flavor(supply_of(nodes), [asked]), TopologyAssignmentFailure
            ) is bool(more)


@given(hosts(), gangs(), st.integers(1, 3))
def test_earlier_pods_are_assumed(nodes: list[Host], gang: Gang, times: int) -> None:
    """The same gang placed again and again never exceeds what nodes have."""
    supply, assumed = supply_of(nodes), TASUsage()
    used = np.zeros(len(nodes), np.int64)
    for _ in range(times):
        found = find_topology_assignments_for_flavor(supply, gang.sets, assumed_usage=assumed)
        if isinstance(found, TopologyAssignmentFailure):
            break
        for pods in gang.sets:
            for domain in found.assignments[pods.name].domains:
                used[[host.name for host in nodes].index(domain.values[-1])] += (
                    domain.pods * pods.single_pod_requests["cpu"]
                )
            assumed = with_assignment_usage(
                supply.tree, assumed, found.assignments[pods.name], pods.single_pod_requests
            )
    assert (used <= [host.cpus for host in nodes]).all()


@given(hosts(), st.lists(gangs(), min_size=1, max_size=2), OPTIONS, st.data())
def test_what_is_kept_is_as_worked_out_anew(
    nodes: list[Host], asked: list[Gang], options: TASFeatureGates, data: st.DataObject
) -> None:
    """Whatever is used by then, of few hosts or many, and whoever asked before."""
    kept = supply_of(nodes)
    usage = {"cpu": np.zeros(len(nodes), np.int64)}
    changes = st.dictionaries(st.integers(0, len(nodes) - 1), st.integers(0, 4), max_size=3)
    for _ in range(4):
        usage = {"cpu": usage["cpu"].copy()}
        for host, amount in data.draw(changes).items():
            usage["cpu"][host] = amount
        for gang in data.draw(st.permutations(asked)):
            fresh = supply_of(nodes).with_usage(usage)
            assert find_topology_assignments_for_flavor(
                kept.with_usage(usage), gang.sets, options
            ) == find_topology_assignments_for_flavor(fresh, gang.sets, options)
