"""Places that every kubelet agrees to: what is found is admitted pod by pod, and what is refused has no place."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_nodes import clusters, pods
from support.fit_nodes import GPU, STATIC, container, in_a_row, node, pod
from support.placing import LEVELS, Host, found, grounds_of, job, shaped, started, zoned, zones_of
from zonewise_scheduler.fit.kubelet.admit import admit
from zonewise_scheduler.queue.placing.fill import zones_of as given_zones
from zonewise_scheduler.queue.placing.kubelets import Kubelets
from zonewise_scheduler.queue.placing.topologies import Topologies
from zonewise_scheduler.queue.placing.zones import ZONE
from zonewise_scheduler.queue.quota.model.workload import TopologyRequest
from zonewise_scheduler.queue.quota.places import NoPlace
from zonewise_scheduler.queue.topology.model import HOSTNAME, Layer, Request

if TYPE_CHECKING:
    from support.placing import Zoned
    from zonewise_scheduler.fit.model.node import NodeState
    from zonewise_scheduler.fit.model.pod import PodShape
    from zonewise_scheduler.queue.quota.model.workload import Workload

STRICT: dict[str, Any] = {"topology": "single-numa-node", **STATIC}
RACK, HOST, ANY = Request("rack"), Request(HOSTNAME), Request(unconstrained=True)
REQUESTS = st.sampled_from([RACK, HOST, ANY, Request(preferred="rack"), Request(preferred=HOSTNAME)])
RACKS = st.text("xy", min_size=8, max_size=8)
WIDE = pod(container(cpus=6, gib=4))
"""In one zone of 8 CPUs there is room for one."""


def exists(states: list[NodeState], racks: str, shape: PodShape, count: int, request: Request) -> bool:
    """Whether there is any place, by trying all numbers of pods on all hosts."""
    choices = [range(in_a_row(state, shape, count) + 1) for state in states]
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
    states: list[NodeState], racks: str, sets: list[tuple[PodShape, int, Request]]
) -> None:
    """Whatever the policies of the kubelets: pod by pod, in the order of the pod sets, on the nodes as they are."""
    cluster = zoned(states, racks[: len(states)])
    one = job("one", *(shaped(shape, count, request, f"set{at}") for at, (shape, count, request) in enumerate(sets)))
    places = found(cluster, one)
    if not isinstance(places, NoPlace):
        assert cluster.admits((each.shape, places[each.name]) for each in one.pod_sets if each.shape is not None)


@settings(max_examples=60)
@given(clusters(("single-numa-node",), most=3), RACKS, pods(), st.integers(1, 5), st.sampled_from([RACK, HOST, ANY]))
def test_what_is_refused_has_no_place(
    states: list[NodeState], racks: str, shape: PodShape, count: int, request: Request
) -> None:
    """For one pod set, by trying all there is; of several, placed one after another, a refusal is no proof."""
    one = found(zoned(states, racks[: len(states)]), job("one", shaped(shape, count, request)))
    assert isinstance(one, NoPlace) is not exists(states, racks, shape, count, request)


@settings(max_examples=60)
@given(clusters(most=3), pods(), pods(), st.integers(1, 4), st.sampled_from([RACK, HOST, ANY]))
def test_leader_and_workers_are_admitted(
    states: list[NodeState], leader: PodShape, workers: PodShape, count: int, request: Request
) -> None:
    """The leader first."""
    cluster = zoned(states)
    sets = [shaped(workers, count, request, "workers", "g"), shaped(leader, 1, request, "leader", "g")]
    places = found(cluster, job("one", *sets))
    if not isinstance(places, NoPlace):
        assert cluster.admits([(leader, places["leader"]), (workers, places["workers"])])


@settings(max_examples=60)
@given(clusters(("single-numa-node",), most=3), pods(), pods(), st.integers(1, 3))
def test_a_leader_finds_the_host_with_room_for_its_workers(
    states: list[NodeState], leader: PodShape, workers: PodShape, count: int
) -> None:
    """All on one host: refused only if no host admits the leader, and then its workers."""
    sets = [shaped(workers, count, HOST, "workers", "g"), shaped(leader, 1, HOST, "leader", "g")]
    afters = [admit(state, leader).after for state in states]
    fits = any(after is not None and in_a_row(after, workers, count) == count for after in afters)
    assert isinstance(found(zoned(states), job("one", *sets)), NoPlace) is not fits


# --- who is there already


@settings(max_examples=60)
@given(clusters(most=3), st.lists(st.tuples(pods(), st.integers(1, 3)), min_size=1, max_size=4), st.data())
def test_books_are_as_before_what_is_tried_out(
    states: list[NodeState], sets: list[tuple[PodShape, int]], data: st.DataObject
) -> None:
    """Whoever is taken out and put back, in any order; with all gone, nodes are as if nobody had been there."""
    cluster = zoned(states)
    running: list[Workload] = []
    for at, (shape, count) in enumerate(sets):
        one = job(f"w{at}", shaped(shape, count))
        if not isinstance(found(cluster, one), NoPlace):
            running.append(started(cluster, one))
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


def shown(cluster: Zoned, rows: int) -> list[NodeState | None]:
    """The nodes as the next pods find them."""
    return [cluster.places.state(row) for row in range(rows)]


def test_pods_of_others_are_counted_once() -> None:
    """A pod that is placed is on the node's books until a report has it, and then in the report alone."""
    idle = node(2, 4, **STRICT)
    reported = admit(idle, WIDE).after
    for there, room in ((0, 0), (1, 1)):
        cluster = zoned([idle])
        first = started(cluster, job("first", shaped(WIDE)))
        cluster.places.report(0, reported, {("ns/first", "main"): there})
        assert isinstance(found(cluster, job("next", shaped(WIDE))), NoPlace) is not bool(room)
        cluster.places.remove(first)
        assert shown(cluster, 1) == [idle if there else reported]


def test_nodes_come_and_go_with_their_reports() -> None:
    """Pods that were placed meanwhile are put on the node once there is a report; without one nothing is known."""
    idle = node(2, 4, **STRICT)
    cluster = zoned([None])
    first = started(cluster, job("first", shaped(WIDE)))
    assert zones_of(cluster, first) == {"main": {("h0", ""): 1}}
    cluster.places.report(0, idle, {})
    assert zones_of(cluster, first) == {"main": {("h0", "0"): 1}}
    assert isinstance(found(cluster, job("two", shaped(WIDE, 2))), NoPlace)
    cluster.places.report(0, None, {})
    assert found(cluster, job("two", shaped(WIDE, 2))) == {"main": {"h0": 2}}
    assert isinstance(found(zoned([None], trusting=False), job("one", shaped(WIDE))), NoPlace)


def test_what_no_longer_fits_leaves_nothing_to_others() -> None:
    """A node that lost CPUs has no room for the pods on it: nobody else goes there until they are gone."""
    idle, small = node(2, 4, **STRICT), pod(container(cpus=1, gib=1))
    cluster = zoned([idle])
    first = started(cluster, job("first", shaped(WIDE, 2)))
    cluster.places.report(0, idle._replace(free_cpus=idle.free_cpus & 0xFF0F), {})
    assert isinstance(found(cluster, job("next", shaped(small))), NoPlace)
    cluster.places.remove(first)
    assert found(cluster, job("next", shaped(small))) == {"main": {"h0": 1}}


def test_as_if_nothing_ran() -> None:
    """What would be if all others gave way: victims are looked for only then."""
    cluster = zoned([node(2, 4, **STRICT)])
    started(cluster, job("first", shaped(WIDE, 2)))
    next_one = job("next", shaped(WIDE, 2))
    assert isinstance(found(cluster, next_one), NoPlace)
    assert found(cluster, next_one, empty=True) == {"main": {"h0": 2}}
    assert isinstance(found(cluster, job("large", shaped(WIDE, 3)), empty=True), NoPlace)


def test_a_refusal_tells_what_the_kubelet_lacks() -> None:
    cluster = zoned([node(2, 4, **STRICT, devices={GPU: {1: count}}) for count in (1, 2)], "xy")
    refused = found(cluster, job("one", shaped(pod(container(cpus=1, gib=1, devices={GPU: 1})), 3, RACK)))
    assert isinstance(refused, NoPlace)
    assert (refused.level, refused.domain, refused.fits, refused.wanted) == ("rack", ("y",), 2, 3)
    assert (refused.node, refused.kubelet) == ("h1", f"needs 1 {GPU}; near all zones together, 0 are free")


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
    cluster = zoned(states)

    def together(host: int) -> bool:
        if in_a_row(states[host], shape, count) < count:
            return False
        (zones,) = zones_apart(states, {f"h{host}": count}, shape)
        return len(zones) == 1 and max(zones).bit_count() < 2

    able = any(map(together, range(len(states))))
    for request in (Request(ZONE), Request(preferred=ZONE)):
        places = found(cluster, job("one", shaped(shape, count, request)))
        if request.required or able:
            assert isinstance(places, NoPlace) is not able
            assert isinstance(places, NoPlace) or together(int(next(iter(places["main"]))[1:]))
        else:
            assert isinstance(places, NoPlace) is not exists(states, "x" * 3, shape, count, ANY)


@settings(max_examples=60)
@given(clusters(most=3), pods(), st.sampled_from([1, 2, 3]), st.integers(1, 3), st.booleans())
def test_slices_in_zones(states: list[NodeState], shape: PodShape, size: int, slices: int, below: bool) -> None:
    """The kubelets put so many pods at a time in one zone, whatever else of it is free."""
    layers = (Layer(HOSTNAME, 2 * size), Layer(ZONE, size)) if below else (Layer(ZONE, size),)
    count = slices * layers[0].size
    places = found(zoned(states), job("one", shaped(shape, count, Request("rack", layers=layers))))
    if not isinstance(places, NoPlace):
        for zones in zones_apart(states, places["main"], shape):
            assert all(pods % size == 0 and own.bit_count() < 2 for own, pods in zones.items())


def test_the_lowest_zone_comes_first() -> None:
    """The first zone has room for one of the pods, where the kubelet puts it: so two never are in the second."""
    begun = admit(node(2, 4, **STRICT), pod(container(cpus=4, gib=1))).after
    shape = pod(container(cpus=4, gib=1))
    cluster = zoned([begun])
    refused = found(cluster, job("two", shaped(shape, 2, Request(ZONE))))
    assert isinstance(refused, NoPlace)
    assert (refused.level, refused.domain, refused.fits, refused.wanted) == (ZONE, ("x", "h0", "0"), 1, 2)
    assert refused.kubelet == "the next of them would be in another zone"
    one = started(cluster, job("two", shaped(shape, 2)))
    assert zones_of(cluster, one) == {"main": {("h0", "0"): 1, ("h0", "1"): 1}}
    two = started(zoned([node(2, 4, **STRICT)]), job("two", shaped(shape, 2, Request(ZONE))))
    assert two.admission is not None


def test_leader_and_workers_in_one_zone() -> None:
    """The leader's place is in the zone of its workers, or there is none."""
    small, shape = pod(container(cpus=2, gib=1)), pod(container(cpus=3, gib=1))
    for workers, host in ((2, "h0"), (3, "")):
        sets = [shaped(shape, workers, Request(ZONE), "workers", "g"), shaped(small, 1, Request(ZONE), "leader", "g")]
        places = found(zoned([node(2, 4, **STRICT)]), job("one", *sets))
        assert places == {"workers": {host: 2}, "leader": {host: 1}} if host else isinstance(places, NoPlace)


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (Request("rack", layers=(Layer(ZONE, 2), Layer(HOSTNAME, 1))), "must be at a lower level"),
        (Request(ZONE, layers=(Layer(HOSTNAME, 2),)), "is above the podset topology"),
        (Request("rack", layers=(Layer(ZONE, 3),)), "must evenly divide"),
    ],
)
def test_zones_are_below_hosts(request_: Request, problem: str) -> None:
    refused = found(zoned([node(2, 4, **STRICT)]), job("one", shaped(WIDE, 2, request_)))
    assert isinstance(refused, NoPlace)
    assert problem in refused.reason


def test_topologies_with_zones() -> None:
    """They may name the level, which no node has a label of; without kubelets nothing is known of it."""
    request = TopologyRequest(Request(ZONE))
    assert zoned([node()]).places.has_level("all", request)
    levels = (*LEVELS, ZONE)
    hosts = [Host("one", "x", 4)]
    assert [one.tree.keys for one in grounds_of(hosts, levels)] == [LEVELS, LEVELS]
    assert not Topologies(grounds_of(hosts)).has_level("all", request)
    with pytest.raises(ValueError, match="is a level only right below"):
        grounds_of(hosts, ("rack", ZONE))


def test_kubelets_are_of_one_table() -> None:
    grounds = [*grounds_of([Host("one", "x", 4)])[:1], *grounds_of([Host("one", "x", 4)])[1:]]
    with pytest.raises(ValueError, match="in several tables"):
        Topologies(grounds, kubelets=Kubelets([None]))
    with pytest.raises(ValueError, match="made without kubelets"):
        Topologies(grounds).report(0, None, {})
