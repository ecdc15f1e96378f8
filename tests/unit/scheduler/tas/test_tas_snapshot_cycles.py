"""Whole cycles with topologies: no host is ever given more than it has, and every placement is a valid one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import container, node, pod
from support.tas_clusters import (
    FLAVORS,
    Host,
    flavor_topologies,
    host_usage,
    hosts_of,
    job,
    pods_of,
    pods_of_shape,
    queue,
    snapshot_of,
    zone_counts,
    zoned_cluster,
)
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.workload_types import PodSet
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.scheduling_cycle import run_cycle
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import needs_second_pass
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest
from zonewise_scheduler.quota.topology.types import HOSTNAME, PodSetTopologyRequest, SliceConstraint
from zonewise_scheduler.tas.tas_snapshot import TASSnapshot
from zonewise_scheduler.tas.zones.zone_level import ZONE_LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Decision

REQUESTS = (
    PodSetTopologyRequest(unconstrained=True),
    PodSetTopologyRequest("rack"),
    PodSetTopologyRequest(HOSTNAME),
    PodSetTopologyRequest(preferred="rack"),
    PodSetTopologyRequest(preferred=HOSTNAME),
    PodSetTopologyRequest("rack", slice_constraints=(SliceConstraint(HOSTNAME, 2),)),
    PodSetTopologyRequest(preferred="rack", slice_constraints=(SliceConstraint("rack", 2),)),
)
QUEUES = (
    queue("a", 6),
    queue("b", 4, ("fast", "all")),
    queue("c", 5, ("all", "fast")),
    queue("alone", 9, ("fast",), cohort=""),
)

Step = tuple[list[tuple[list[PodSet], int]], set[int], int]
"""Of a history: what is new in each queue, with its priority, who ends by himself, and whose node fails."""

_HOSTS = st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 6), st.booleans()), min_size=1, max_size=5).map(
    lambda found: [Host(f"h{place}", *one) for place, one in enumerate(found)]
)
_PODS = st.builds(pods_of, st.integers(1, 3), st.sampled_from([1, 2, 4]), st.sampled_from(REQUESTS))
_SETS = st.lists(_PODS, min_size=1, max_size=2).map(
    lambda found: [one._replace(name=f"set{place}") for place, one in enumerate(found)]
)
_NEW = st.tuples(_SETS, st.integers(0, 3))
_STEP = st.tuples(st.lists(_NEW, min_size=4, max_size=4), st.sets(st.integers(0, 9)), st.integers(0, 9))
_SETTINGS = st.builds(QuotaSettings, fair_sharing=st.booleans(), recompute_topology_assignment=st.booleans())


def running(snapshot: Snapshot) -> list[Workload]:
    return [one for found in snapshot.workloads_by_queue.values() for one in found.values()]


def fail(snapshot: Snapshot, number: int) -> None:
    """Have the first node of a workload fail."""
    for one in running(snapshot)[number : number + 1]:
        hosts = [host for found in hosts_of(one).values() for host in found]
        snapshot.remove_workload(one)
        snapshot.add_workload(replace(one, unhealthy_nodes=tuple(hosts[:1])))


def history(snapshot: Snapshot, cycles: list[Step], settings: QuotaSettings) -> Iterator[Decision]:
    """Run cycles; after each, victims and those evicted are gone, and some end by themselves."""
    for number, (new, ended, failed) in enumerate(cycles):
        fail(snapshot, failed)
        heads = [
            Head(one, one.admission.cluster_queue)
            for one in running(snapshot)
            if one.admission is not None and needs_second_pass(one, snapshot.tas_snapshot)
        ]
        for spec, (sets, priority) in zip(QUEUES, new, strict=True):
            heads.append(Head(job(f"{spec.name}-{number}", *sets, priority=priority, created=number), spec.name))
        decisions = run_cycle(snapshot, heads, settings, float(number))
        yield from decisions
        gone = {each.workload.key for one in decisions for each in one.preemption_targets}
        gone |= {one.workload.key for one in decisions if one.status == "evicted"}
        gone |= {one.key for place, one in enumerate(running(snapshot)) if place in ended}
        for one in running(snapshot):
            if one.key in gone:
                snapshot.remove_workload(one)


def is_valid(one: Workload, hosts: dict[str, Host]) -> bool:
    """Tell whether all pods have a host of their flavor, as their request has it."""
    assert one.admission is not None
    found = hosts_of(one)
    for spec, given_set in zip(one.pod_sets, one.admission.pod_sets, strict=True):
        at, topology = found[spec.name], spec.topology
        assert topology is not None
        racks: dict[str, int] = {}
        for host, count in at.items():
            racks[hosts[host].rack] = racks.get(hosts[host].rack, 0) + count
        levels = {"rack": racks, HOSTNAME: at}
        request = topology.request
        sound = sum(at.values()) == spec.pods
        sound &= given_set.flavors["cpu"] == "all" or all(hosts[host].fast for host in at)
        sound &= not request.required or len(levels[request.required]) == 1
        sound &= all(
            count % layer.size == 0 for layer in request.slice_constraints for count in levels[layer.level].values()
        )
        if not sound:
            return False
    return True


@given(_HOSTS, st.lists(_STEP, min_size=1, max_size=4), _SETTINGS)
def test_no_host_is_given_more_than_it_has(hosts: list[Host], cycles: list[Step], settings: QuotaSettings) -> None:
    """Over cycles with preemption, failed nodes and flavors that share hosts; each placement is as it was asked for."""
    snapshot, by_name = snapshot_of(QUEUES, hosts), {one.name: one for one in hosts}
    for one in history(snapshot, cycles, settings):
        if one.status == "admitted":
            assert is_valid(one.workload, by_name)
        used = host_usage(running(snapshot))
        assert all(used.get(host.name, 0) <= host.cpus for host in hosts)


@given(_HOSTS, st.lists(_STEP, min_size=1, max_size=3), _SETTINGS, _PODS)
def test_books_are_those_of_who_runs(
    hosts: list[Host], cycles: list[Step], settings: QuotaSettings, pods: PodSet
) -> None:
    """After any history, places are found as by books that are made anew of those that run."""
    snapshot = snapshot_of(QUEUES, hosts)
    for _ in history(snapshot, cycles, settings):
        pass
    fresh = TASSnapshot(flavor_topologies(hosts))
    for one in running(snapshot):
        fresh.add(one)
    probe = job("probe", pods)
    wishes = {name: [PlacementRequest(probe.pod_sets[0], probe.pod_sets[0].pods, name)] for name in ("all", "fast")}
    for name, wish in wishes.items():
        assert snapshot.tas_snapshot.find_topology_assignments(
            probe, {name: wish}, empty=False
        ) == fresh.find_topology_assignments(probe, {name: wish}, empty=False)


@given(_HOSTS, st.lists(_STEP, min_size=1, max_size=3), st.sets(st.integers(0, 9)), _PODS)
def test_several_come_and_go_as_one_by_one(hosts: list[Host], cycles: list[Step], some: set[int], pods: PodSet) -> None:
    snapshot = snapshot_of(QUEUES, hosts)
    for _ in history(snapshot, cycles, QuotaSettings()):
        pass
    chosen = [one for place, one in enumerate(running(snapshot)) if place in some]
    together, single = snapshot.tas_snapshot.copy(), snapshot.tas_snapshot.copy()
    probe = job("probe", pods)
    wishes = {"all": [PlacementRequest(probe.pod_sets[0], probe.pod_sets[0].pods, "all")]}
    before = single.find_topology_assignments(probe, wishes, empty=False)
    together.remove_all(chosen)
    for one in chosen:
        single.remove(one)
    assert together.find_topology_assignments(probe, wishes, empty=False) == single.find_topology_assignments(
        probe, wishes, empty=False
    )
    together.add_all(chosen)
    assert together.find_topology_assignments(probe, wishes, empty=False) == before


@given(_HOSTS, st.lists(_STEP, min_size=1, max_size=3), st.lists(_PODS, min_size=1, max_size=3), st.data())
def test_what_is_remembered_is_found_anew(
    hosts: list[Host], cycles: list[Step], asked: list[PodSet], data: st.DataObject
) -> None:
    """Whoever comes, goes and asks meanwhile, in copies too, is told what books would tell that are made anew."""
    snapshot = snapshot_of(QUEUES, hosts)
    for _ in history(snapshot, cycles, QuotaSettings()):
        pass
    there, known = running(snapshot), [(snapshot.tas_snapshot, {one.key: one for one in running(snapshot)})]
    for _ in range(data.draw(st.integers(1, 6))):
        places, runs = data.draw(st.sampled_from(known))
        if data.draw(st.booleans()):
            places, runs = places.copy(), dict(runs)
            known.append((places, runs))
        for one in data.draw(st.lists(st.sampled_from(there), unique_by=id)) if there else ():
            if runs.pop(one.key, None) is not None:
                places.remove(one)
            else:
                places.add(one)
                runs[one.key] = one
        fresh = TASSnapshot(flavor_topologies(hosts))
        fresh.add_all(runs.values())
        probe = job("probe", data.draw(st.sampled_from(asked)))
        wishes = {"all": [PlacementRequest(probe.pod_sets[0], probe.pod_sets[0].pods, "all")]}
        for empty in (False, True):
            assert places.find_topology_assignments(probe, wishes, empty=empty) == fresh.find_topology_assignments(
                probe, wishes, empty=empty
            )
        assert [places.fits(one) for one in there] == [fresh.fits(one) for one in there]


_SHAPES = st.sampled_from([pod(container(cpus=cpus, gib=1)) for cpus in (1, 2, 3, 5)])


def in_zones(shape: PodShape, pods: int, request: PodSetTopologyRequest) -> PodSet:
    return pods_of_shape(shape, pods, request)._replace(requests={"cpu": pods})


_IN_ZONES = st.builds(
    in_zones,
    _SHAPES,
    st.sampled_from([1, 2, 4]),
    st.sampled_from(
        [
            *REQUESTS[:5],
            PodSetTopologyRequest(ZONE_LEVEL),
            PodSetTopologyRequest(preferred=ZONE_LEVEL),
            PodSetTopologyRequest("rack", slice_constraints=(SliceConstraint(ZONE_LEVEL, 2),)),
        ]
    ),
)
_ZONED_STEP = st.tuples(
    st.lists(st.tuples(_IN_ZONES.map(lambda one: [one]), st.integers(0, 3)), min_size=4, max_size=4),
    st.sets(st.integers(0, 9)),
    st.just(99),
)


@given(st.text("xy", min_size=1, max_size=4), st.lists(_ZONED_STEP, min_size=1, max_size=4), _SETTINGS)
def test_kubelets_admit_all_that_starts(racks: str, cycles: list[Step], settings: QuotaSettings) -> None:
    """Over cycles with preemption: everybody has zones of his host, in one where that was required; nobody waits."""
    aligned = node(2, 4, topology="single-numa-node", cpu="static", memory="Static")
    cluster = zoned_cluster([aligned] * len(racks), racks, flavors=FLAVORS)
    snapshot = Snapshot(QUEUES, resource_flavors=FLAVORS, tas_snapshot=cluster.places)
    for one in history(snapshot, cycles, settings):
        if one.status == "admitted":
            zones = zone_counts(cluster, one.workload)["main"]
            assert sum(zones.values()) == one.workload.pod_sets[0].pods
            assert all(zone in {"0", "1"} for _, zone in zones)
            request = one.workload.pod_sets[0].topology
            assert request is not None
            assert request.request.required != ZONE_LEVEL or len(zones) == 1
            assert not request.request.slice_constraints or all(count % 2 == 0 for count in zones.values())
    for one in running(snapshot):
        snapshot.remove_workload(one)
    assert [cluster.places.node_state(row) for row in range(len(racks))] == [aligned] * len(racks)
