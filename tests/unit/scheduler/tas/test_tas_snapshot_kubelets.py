"""Places that every kubelet agrees to: what is found is admitted pod by pod, and what is refused has no place."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_nodes import clusters, pods
from support.fit_nodes import GPU, STATIC, container, admitted_in_sequence, node, pod
from support.tas_clusters import (
    LEVELS,
    Host,
    find_hosts,
    flavor_topologies,
    job,
    pods_of_shape,
    start,
    zone_counts,
    zoned_cluster,
)
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.quota.api.workload_types import TopologyRequest
from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure
from zonewise_scheduler.quota.topology.types import HOSTNAME, PodSetTopologyRequest, SliceConstraint
from zonewise_scheduler.tas.tas_snapshot import TASSnapshot
from zonewise_scheduler.tas.zones.kubelet_states import KubeletStates
from zonewise_scheduler.tas.zones.node_filling import assigned_zones as given_zones
from zonewise_scheduler.tas.zones.zone_level import ZONE_LEVEL

if TYPE_CHECKING:
    from support.tas_clusters import ZonedCluster
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.quota.api.workload_types import Workload

STRICT: dict[str, Any] = {"topology": "single-numa-node", **STATIC}
RACK, HOST, ANY = (
    PodSetTopologyRequest("rack"),
    PodSetTopologyRequest(HOSTNAME),
    PodSetTopologyRequest(unconstrained=True),
)
REQUESTS = st.sampled_from(
    [RACK, HOST, ANY, PodSetTopologyRequest(preferred="rack"), PodSetTopologyRequest(preferred=HOSTNAME)]
)
RACKS = st.text("xy", min_size=8, max_size=8)
WIDE = pod(container(cpus=6, gib=4))
"""In one zone of 8 CPUs there is room for one."""


def exists(states: list[NodeState], racks: str, shape: PodShape, count: int, request: PodSetTopologyRequest) -> bool:
    """Whether there is any place, by trying all numbers of pods on all hosts."""
    choices = [range(admitted_in_sequence(state, shape, count) + 1) for state in states]
    for counts in product(*choices):
        used = [at for at, number in enumerate(counts) if number]
        one_rack = len({racks[at] for at in used}) == 1
        fine = {RACK: one_rack, HOST: len(used) == 1}.get(request, True)
        if sum(counts) == count and fine:
            return True
    return False


@settings(max_examples=60)
@given(clusters(most=5), RACKS, st.lists(st.tuples(pods(), st.integers(1, 5), REQUESTS), min_size=1, max_size=3))
def test_what_is_found_is_admitted(
    states: list[NodeState], racks: str, sets: list[tuple[PodShape, int, PodSetTopologyRequest]]
) -> None:
    """Whatever the policies of the kubelets: pod by pod, in the order of the pod sets, on the nodes as they are."""
    cluster = zoned_cluster(states, racks[: len(states)])
    one = job(
        "one", *(pods_of_shape(shape, count, request, f"set{at}") for at, (shape, count, request) in enumerate(sets))
    )
    places = find_hosts(cluster, one)
    if not isinstance(places, TopologyPlacementFailure):
        assert cluster.admits((each.shape, places[each.name]) for each in one.pod_sets if each.shape is not None)


@settings(max_examples=60)
@given(clusters(("single-numa-node",), most=3), RACKS, pods(), st.integers(1, 5), st.sampled_from([RACK, HOST, ANY]))
def test_what_is_refused_has_no_place(
    states: list[NodeState], racks: str, shape: PodShape, count: int, request: PodSetTopologyRequest
) -> None:
    """For one pod set, by trying all there is; of several, placed one after another, a refusal is no proof."""
    one = find_hosts(zoned_cluster(states, racks[: len(states)]), job("one", pods_of_shape(shape, count, request)))
    assert isinstance(one, TopologyPlacementFailure) is not exists(states, racks, shape, count, request)


@settings(max_examples=60)
@given(clusters(most=3), pods(), pods(), st.integers(1, 4), st.sampled_from([RACK, HOST, ANY]))
def test_leader_and_workers_are_admitted(
    states: list[NodeState], leader: PodShape, workers: PodShape, count: int, request: PodSetTopologyRequest
) -> None:
    """The leader first."""
    cluster = zoned_cluster(states)
    sets = [pods_of_shape(workers, count, request, "workers", "g"), pods_of_shape(leader, 1, request, "leader", "g")]
    places = find_hosts(cluster, job("one", *sets))
    if not isinstance(places, TopologyPlacementFailure):
        assert cluster.admits([(leader, places["leader"]), (workers, places["workers"])])


@settings(max_examples=60)
@given(clusters(("single-numa-node",), most=3), pods(), pods(), st.integers(1, 3))
def test_a_leader_finds_the_host_with_room_for_its_workers(
    states: list[NodeState], leader: PodShape, workers: PodShape, count: int
) -> None:
    """All on one host: refused only if no host admits the leader, and then its workers."""
    sets = [pods_of_shape(workers, count, HOST, "workers", "g"), pods_of_shape(leader, 1, HOST, "leader", "g")]
    afters = [admit(state, leader).after for state in states]
    fits = any(after is not None and admitted_in_sequence(after, workers, count) == count for after in afters)
    assert isinstance(find_hosts(zoned_cluster(states), job("one", *sets)), TopologyPlacementFailure) is not fits


# --- who is there already


@settings(max_examples=60)
@given(clusters(most=3), st.lists(st.tuples(pods(), st.integers(1, 3)), min_size=1, max_size=4), st.data())
def test_books_are_as_before_what_is_tried_out(
    states: list[NodeState], sets: list[tuple[PodShape, int]], data: st.DataObject
) -> None:
    """Whoever is taken out and put back, in any order; with all gone, nodes are as if nobody had been there."""
    cluster = zoned_cluster(states)
    running: list[Workload] = []
    for at, (shape, count) in enumerate(sets):
        one = job(f"w{at}", pods_of_shape(shape, count))
        if not isinstance(find_hosts(cluster, one), TopologyPlacementFailure):
            running.append(start(cluster, one))
    before = shown(cluster, len(states))
    gone = data.draw(st.permutations(running))[: data.draw(st.integers(0, len(running)))]
    other = cluster.places.copy()
    for one in gone:
        cluster.places.remove(one)
    for one in data.draw(st.permutations(gone)):
        assert cluster.places.fits(one) or starts_with_more(one)
        cluster.places.add(one)
    assert shown(cluster, len(states)) == before == shown(cluster._replace(places=other), len(states))
    for one in running:
        cluster.places.remove(one)
    assert shown(cluster, len(states)) == states


def starts_with_more(one: Workload) -> bool:
    """Whether pods may hold less once they run than they need to be admitted."""
    return any(each.role == "init" for pods in one.pod_sets if pods.shape is not None for each in pods.shape.containers)


def shown(cluster: ZonedCluster, rows: int) -> list[NodeState | None]:
    """The nodes as the next pods find them."""
    return [cluster.places.node_state(row) for row in range(rows)]


def test_pods_of_others_are_counted_once() -> None:
    """A pod that is placed is on the node's books until a report has it, and then in the report alone."""
    idle = node(2, 4, **STRICT)
    reported = admit(idle, WIDE).after
    for there, room in ((0, 0), (1, 1)):
        cluster = zoned_cluster([idle])
        first = start(cluster, job("first", pods_of_shape(WIDE)))
        cluster.places.report(0, reported, {("ns/first", "main"): there})
        assert isinstance(find_hosts(cluster, job("next", pods_of_shape(WIDE))), TopologyPlacementFailure) is not bool(
            room
        )
        cluster.places.remove(first)
        assert shown(cluster, 1) == [idle if there else reported]


def test_nodes_come_and_go_with_their_reports() -> None:
    """Pods that were placed meanwhile are put on the node once there is a report; without one nothing is known."""
    idle = node(2, 4, **STRICT)
    cluster = zoned_cluster([None])
    first = start(cluster, job("first", pods_of_shape(WIDE)))
    assert zone_counts(cluster, first) == {"main": {("h0", ""): 1}}
    cluster.places.report(0, idle, {})
    assert zone_counts(cluster, first) == {"main": {("h0", "0"): 1}}
    assert isinstance(find_hosts(cluster, job("two", pods_of_shape(WIDE, 2))), TopologyPlacementFailure)
    cluster.places.report(0, None, {})
    assert find_hosts(cluster, job("two", pods_of_shape(WIDE, 2))) == {"main": {"h0": 2}}
    assert isinstance(
        find_hosts(zoned_cluster([None], allow_unknown=False), job("one", pods_of_shape(WIDE))),
        TopologyPlacementFailure,
    )


def test_what_no_longer_fits_leaves_nothing_to_others() -> None:
    """A node that lost CPUs has no room for the pods on it: nobody else goes there until they are gone."""
    idle, small = node(2, 4, **STRICT), pod(container(cpus=1, gib=1))
    cluster = zoned_cluster([idle])
    first = start(cluster, job("first", pods_of_shape(WIDE, 2)))
    cluster.places.report(0, idle._replace(free_cpus=idle.free_cpus & 0xFF0F), {})
    assert isinstance(find_hosts(cluster, job("next", pods_of_shape(small))), TopologyPlacementFailure)
    cluster.places.remove(first)
    assert find_hosts(cluster, job("next", pods_of_shape(small))) == {"main": {"h0": 1}}


def test_as_if_nothing_ran() -> None:
    """What would be if all others gave way: victims are looked for only then."""
    cluster = zoned_cluster([node(2, 4, **STRICT)])
    start(cluster, job("first", pods_of_shape(WIDE, 2)))
    next_one = job("next", pods_of_shape(WIDE, 2))
    assert isinstance(find_hosts(cluster, next_one), TopologyPlacementFailure)
    assert find_hosts(cluster, next_one, empty=True) == {"main": {"h0": 2}}
    assert isinstance(find_hosts(cluster, job("large", pods_of_shape(WIDE, 3)), empty=True), TopologyPlacementFailure)


def test_a_refusal_tells_what_the_kubelet_lacks() -> None:
    cluster = zoned_cluster([node(2, 4, **STRICT, devices={GPU: {1: count}}) for count in (1, 2)], "xy")
    refused = find_hosts(cluster, job("one", pods_of_shape(pod(container(cpus=1, gib=1, devices={GPU: 1})), 3, RACK)))
    assert isinstance(refused, TopologyPlacementFailure)
    assert (refused.level, refused.domain, refused.fitting_slices, refused.slice_count) == ("rack", ("y",), 2, 3)
    assert (refused.node, refused.kubelet_reason) == ("h1", f"needs 1 {GPU}; near all zones together, 0 are free")


# --- zones


def zones_apart(states: list[NodeState], hosts: dict[str, int], shape: PodShape) -> list[dict[int, int]]:
    """By host, how many pods each set of zones has, as the kubelets give them; unaligned hosts are one zone."""
    made: list[dict[int, int]] = []
    for host, count in hosts.items():
        state = states[int(host[1:])]
        aligned = state.kind.policies.topology in {"single-numa-node", "restricted"}
        zones: dict[int, int] = {}
        for _ in range(count):
            verdict = admit(state, shape)
            assert verdict.after is not None
            own = given_zones(state.kind, verdict) if aligned else 0
            zones[own] = zones.get(own, 0) + 1
            state = verdict.after
        made.append(zones)
    return made


@settings(max_examples=60)
@given(clusters(most=3), pods(), st.integers(1, 5))
def test_pods_in_one_zone(states: list[NodeState], shape: PodShape, count: int) -> None:
    """Found exactly if the kubelet of some host puts all in one zone; preferred, that does not stand in the way."""
    cluster = zoned_cluster(states)

    def together(host: int) -> bool:
        if admitted_in_sequence(states[host], shape, count) < count:
            return False
        (zones,) = zones_apart(states, {f"h{host}": count}, shape)
        return len(zones) == 1 and max(zones).bit_count() < 2

    able = any(map(together, range(len(states))))
    for request in (PodSetTopologyRequest(ZONE_LEVEL), PodSetTopologyRequest(preferred=ZONE_LEVEL)):
        places = find_hosts(cluster, job("one", pods_of_shape(shape, count, request)))
        if request.required or able:
            assert isinstance(places, TopologyPlacementFailure) is not able
            assert isinstance(places, TopologyPlacementFailure) or together(int(next(iter(places["main"]))[1:]))
        else:
            assert isinstance(places, TopologyPlacementFailure) is not exists(states, "x" * 3, shape, count, ANY)


@settings(max_examples=60)
@given(clusters(most=3), pods(), st.sampled_from([1, 2, 3]), st.integers(1, 3), st.booleans())
def test_slices_in_zones(states: list[NodeState], shape: PodShape, size: int, slices: int, below: bool) -> None:
    """The kubelets put so many pods at a time in one zone, whatever else of it is free."""
    layers = (
        (SliceConstraint(HOSTNAME, 2 * size), SliceConstraint(ZONE_LEVEL, size))
        if below
        else (SliceConstraint(ZONE_LEVEL, size),)
    )
    count = slices * layers[0].size
    places = find_hosts(
        zoned_cluster(states),
        job("one", pods_of_shape(shape, count, PodSetTopologyRequest("rack", slice_constraints=layers))),
    )
    if not isinstance(places, TopologyPlacementFailure):
        for zones in zones_apart(states, places["main"], shape):
            assert all(pods % size == 0 and own.bit_count() < 2 for own, pods in zones.items())


def test_the_lowest_zone_comes_first() -> None:
    """The first zone has room for one of the pods, where the kubelet puts it: so two never are in the second."""
    begun = admit(node(2, 4, **STRICT), pod(container(cpus=4, gib=1))).after
    shape = pod(container(cpus=4, gib=1))
    cluster = zoned_cluster([begun])
    refused = find_hosts(cluster, job("two", pods_of_shape(shape, 2, PodSetTopologyRequest(ZONE_LEVEL))))
    assert isinstance(refused, TopologyPlacementFailure)
    assert (refused.level, refused.domain, refused.fitting_slices, refused.slice_count) == (
        ZONE_LEVEL,
        ("x", "h0", "0"),
        1,
        2,
    )
    assert refused.kubelet_reason == "the next of them would be in another zone"
    one = start(cluster, job("two", pods_of_shape(shape, 2)))
    assert zone_counts(cluster, one) == {"main": {("h0", "0"): 1, ("h0", "1"): 1}}
    two = start(
        zoned_cluster([node(2, 4, **STRICT)]), job("two", pods_of_shape(shape, 2, PodSetTopologyRequest(ZONE_LEVEL)))
    )
    assert two.admission is not None


def test_leader_and_workers_in_one_zone() -> None:
    """The leader's place is in the zone of its workers, or there is none."""
    small, shape = pod(container(cpus=2, gib=1)), pod(container(cpus=3, gib=1))
    for workers, host in ((2, "h0"), (3, "")):
        sets = [
            pods_of_shape(shape, workers, PodSetTopologyRequest(ZONE_LEVEL), "workers", "g"),
            pods_of_shape(small, 1, PodSetTopologyRequest(ZONE_LEVEL), "leader", "g"),
        ]
        places = find_hosts(zoned_cluster([node(2, 4, **STRICT)]), job("one", *sets))
        assert (
            places == {"workers": {host: 2}, "leader": {host: 1}}
            if host
            else isinstance(places, TopologyPlacementFailure)
        )


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (
            PodSetTopologyRequest(
                "rack", slice_constraints=(SliceConstraint(ZONE_LEVEL, 2), SliceConstraint(HOSTNAME, 1))
            ),
            "must be at a lower level",
        ),
        (
            PodSetTopologyRequest(ZONE_LEVEL, slice_constraints=(SliceConstraint(HOSTNAME, 2),)),
            "is above the podset topology",
        ),
        (PodSetTopologyRequest("rack", slice_constraints=(SliceConstraint(ZONE_LEVEL, 3),)), "must evenly divide"),
    ],
)
def test_zones_are_below_hosts(request_: PodSetTopologyRequest, problem: str) -> None:
    refused = find_hosts(zoned_cluster([node(2, 4, **STRICT)]), job("one", pods_of_shape(WIDE, 2, request_)))
    assert isinstance(refused, TopologyPlacementFailure)
    assert problem in refused.reason


def test_topologies_with_zones() -> None:
    """They may name the level, which no node has a label of; without kubelets nothing is known of it."""
    request = TopologyRequest(PodSetTopologyRequest(ZONE_LEVEL))
    assert zoned_cluster([node()]).places.has_level("all", request)
    levels = (*LEVELS, ZONE_LEVEL)
    hosts = [Host("one", "x", 4)]
    assert [one.tree.level_keys for one in flavor_topologies(hosts, levels)] == [LEVELS, LEVELS]
    assert not TASSnapshot(flavor_topologies(hosts)).has_level("all", request)
    with pytest.raises(ValueError, match="is a level only right below"):
        flavor_topologies(hosts, ("rack", ZONE_LEVEL))


def test_kubelets_are_of_one_table() -> None:
    grounds = [*flavor_topologies([Host("one", "x", 4)])[:1], *flavor_topologies([Host("one", "x", 4)])[1:]]
    with pytest.raises(ValueError, match="in several tables"):
        TASSnapshot(grounds, kubelet_states=KubeletStates([None]))
    with pytest.raises(ValueError, match="made without kubelets"):
        TASSnapshot(grounds).report(0, None, {})
