"""prefer-closest-numa-nodes: the order of sets, and kubelet panics for NUMA nodes with gaps in their ids."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise, permutations, product
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import GPU, NIC, container, node, pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.errors import AdmissionError
from zonewise_scheduler.admission.topologymanager.hints import Hints
from zonewise_scheduler.admission.topologymanager.numa_info import check_distances, may_panic, sets_by_closeness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.admission.node import NodeKind, NodeState


class Hint(NamedTuple):
    """A TopologyHint."""

    zones: int | None
    preferred: bool


class Panic(Exception):
    """Index out of range."""


def average_distance(kind: NodeKind, mask: int) -> float:
    """Run a transcription of CalculateAverageFor, with Go's index check."""
    ids = [bit for bit in range(64) if mask >> bit & 1]
    total = 0
    for a in ids:
        row = kind.distances[kind.zones.index(a)]
        for b in ids:
            if b >= len(row):
                raise Panic
            total += row[b]
    return total / len(ids) ** 2


def closest(kind: NodeKind, current: Hint, candidate: Hint) -> Hint:
    """Run a transcription of CompareNUMAAffinityMasks with PreferClosestNUMA."""
    one, other = current.zones or 0, candidate.zones or 0
    if one == other:
        return current
    if one.bit_count() != other.bit_count():
        return current if one.bit_count() < other.bit_count() else candidate
    distances = average_distance(kind, one), average_distance(kind, other)
    if distances[0] == distances[1]:
        return current if one < other else candidate
    return current if distances[0] < distances[1] else candidate


def compare(kind: NodeKind, best_count: int, current: Hint | None, candidate: Hint) -> Hint | None:
    """Run a transcription of HintMerger.compare, case by case."""
    if not candidate.zones:
        return current
    if current is None or (not current.preferred and candidate.preferred):
        return candidate
    if current.preferred:
        return closest(kind, current, candidate) if candidate.preferred else current
    size, candidate_size = (current.zones or 0).bit_count(), candidate.zones.bit_count()
    if size > best_count or candidate_size == size:  # case 1; one half of case 2; case 3cc
        return closest(kind, current, candidate)
    moves_closer = size != best_count and size < candidate_size <= best_count  # cases 3b and 3ca
    return candidate if moves_closer else current


def merge_panics(kind: NodeKind, resources: tuple[list[Hint], ...]) -> bool:
    """Run a transcription of HintMerger.Merge; return whether it panics."""
    everywhere = sum(1 << zone for zone in kind.zones)
    narrowest = [[hint.zones.bit_count() for hint in hints if hint.zones] for hints in resources]
    best_count = max((min(sizes) for sizes in narrowest if sizes), default=0)
    best: Hint | None = None
    try:
        for permutation in product(*resources):
            masks = [hint.zones for hint in permutation if hint.zones is not None]
            merged = everywhere
            for mask in masks:
                merged &= mask
            preferred = all(hint.preferred for hint in permutation) and len(set(masks)) < 2
            best = compare(kind, best_count, best, Hint(merged, preferred))
    except Panic:
        return True
    return False


def gapped(zones: tuple[int, ...], policy: str = "restricted") -> NodeKind:
    """Return a kind of node whose zones have these ids."""
    kind = node(len(zones), topology=policy, prefer_closest=True, cpu="static").kind
    cpus = replace(kind.cpus, zones=tuple((zone, bits) for zone, (_, bits) in zip(zones, kind.cpus.zones, strict=True)))
    return replace(kind, zones=zones, cpus=cpus)


@st.composite
def any_hints(draw: st.DrawFn, zones: tuple[int, ...]) -> Hints:
    """Draw hints of a resource."""
    count = len(zones)
    sets = draw(st.sets(st.integers(1, (1 << count) - 1), max_size=5))
    masks = [sum(1 << zone for index, zone in enumerate(zones) if one >> index & 1) for one in sorted(sets)]
    preferred = draw(st.integers(0, len(masks)))
    return Hints(tuple(masks[:preferred]), tuple(masks[preferred:]))


@given(st.sampled_from([(0, 2), (0, 8), (0, 1, 3), (1, 2, 4), (0, 1, 2)]), st.data())
def test_a_merge_panics_if_the_kubelets_does(zones: tuple[int, ...], data: st.DataObject) -> None:
    """The order of the resources may be any, since Go's maps have no order."""
    kind = gapped(zones)
    resources = data.draw(st.lists(any_hints(zones), min_size=1, max_size=3))
    lists = [
        sorted(
            [Hint(mask, preferred=True) for mask in resource.preferred]
            + [Hint(mask, preferred=False) for mask in resource.not_preferred],
            key=lambda hint: (
                (hint.zones or 0).bit_count(),
                [bit for bit in range(64) if (hint.zones or 0) >> bit & 1],
            ),
        )
        or [Hint(None, preferred=False)]
        for resource in resources
    ]
    expected = any(merge_panics(kind, order) for order in permutations(lists))
    if not expected:
        check_distances(kind, resources)
        return
    with pytest.raises(AdmissionError, match="its kubelet panics"):
        check_distances(kind, resources)
    assert may_panic(kind.policies, kind.zones)


def hints(preferred: Sequence[tuple[int, ...]] = (), others: Sequence[tuple[int, ...]] = ()) -> Hints:
    """Return the hints of a resource, given as the zones of each set."""
    return Hints(*(tuple(sum(1 << zone for zone in zones) for zones in sets) for sets in (preferred, others)))


@pytest.mark.parametrize(
    ("zones", "resources", "panics"),
    [
        # zone 3 alone is not preferred: the first pair replaces it, and the second pair is as wide as the first
        ((0, 1, 3), [hints([(0, 3), (1, 3)], [(3,)])], True),
        ((0, 1, 3), [hints([(0, 3)], [(3,)])], False),
        # the pairs lie below the gap, so their distances are known
        ((0, 1, 2, 4), [hints([(0, 2)], [(1, 2)]), hints()], False),
        # the preferred pair comes between two others and is compared with neither
        ((0, 1, 3), [hints([(0, 3)], [(0, 1), (1, 3)])], False),
        # there is no gap, so all distances are known
        ((0, 1, 2), [hints([(0, 2), (1, 2)])], False),
        # no hints at all
        ((0, 9), [], False),
        ((0, 9), [hints(), hints()], False),
        # the pair is narrower than the sets compared with it
        ((0, 1, 2, 4), [hints([(0, 1), (0, 2, 4), (1, 2, 4)])], False),
        # zone 4 is the best so far, and is then compared with zone 0
        ((0, 1, 2, 4), [hints([(0, 1), (4,)]), hints(), hints([(0, 4)])], True),
        # the first pair is preferred, so the zones of others do not replace it
        ((1, 2, 4), [hints([(1, 2), (1, 4)]), hints([(1, 4), (2, 4)])], False),
        # equal sets of two resources are preferred, and the others are not
        ((0, 9), [hints([(9,)], [(0, 9)]), hints([(0,), (9,)])], False),
        # a resource needs two zones: two common zones are better than one, and are compared with the next two
        ((0, 1, 3), [hints([(0, 3)], [(1,), (1, 3)]), hints(others=[(0, 1, 3)])], True),
        ((0, 1, 3), [hints([(0, 1, 3)], [(0, 3)]), hints([(0, 1, 3)], [(0, 1)])], True),
        # four zones are needed: three common zones are better than two, and are compared with the next three
        ((0, 1, 2, 3, 9), [hints([(0, 1, 2, 9)]), hints([(2, 9), (0, 2, 9), (0, 1, 2)])], True),
        # two zones are needed: one common zone is better than three or four, which are not compared with any other set
        ((0, 1, 2, 3, 5), [hints([(1,), (0, 1, 2, 5)]), hints([(2, 3)], [(0, 2, 5), (1, 2, 5)])], False),
        (
            (0, 1, 2, 3, 4, 9),
            [hints([(3,), (0, 4, 9)], [(0, 2, 3, 9), (1, 2, 3, 4)]), hints(others=[(0, 2, 4, 9), (1, 2)])],
            False,
        ),
        # a preferred pair out of three zones that are not preferred is not preferred, and compared with the next pair
        ((0, 1, 3), [hints(others=[(0, 1, 3)]), hints([(0, 3)], [(1, 3)])], True),
        # a resource needs as many zones as the two common ones, so zone 3 does not replace them
        ((0, 2, 3), [hints(), hints([(0, 2), (0, 3)]), hints([(0, 3), (2, 3)])], False),
    ],
)
def test_whether_two_sets_are_compared_by_distance(
    zones: tuple[int, ...], resources: list[Hints], panics: bool
) -> None:
    """The kubelet panics on missing distances, but reads them only for two sets that are otherwise equally good."""
    with pytest.raises(AdmissionError, match="its kubelet panics") if panics else nullcontext():
        check_distances(gapped(zones), resources)


@pytest.mark.parametrize(("count", "panics"), [(4, False), (5, True)])
def test_orders_of_five_resources_are_not_followed(count: int, panics: bool) -> None:
    """For a pod with that many resources, the kubelet is presumed to panic."""
    with pytest.raises(AdmissionError, match="its kubelet panics") if panics else nullcontext():
        check_distances(gapped((0, 9)), [hints([(0,)])] * count)


@pytest.mark.parametrize(("count", "panics"), [(64, False), (65, True)])
def test_more_than_4096_combinations_are_not_followed(count: int, panics: bool) -> None:
    """For a pod with that many combinations, the kubelet is presumed to panic. All sets lie below the gap."""
    resources = [Hints(tuple(range(1, 65))), Hints(tuple(range(1, 1 + count)))]
    with pytest.raises(AdmissionError, match="its kubelet panics") if panics else nullcontext():
        check_distances(gapped((0, 1, 2, 3, 4, 5, 6, 9)), resources)


def gapped_state(policy: str, **devices: int) -> NodeState:
    """Return a node of zones 0 and 8 with the given numbers of devices."""
    kind = gapped((0, 8), policy)
    state = node(2, devices={GPU: {1: devices["near"], 1 << 8: devices["far"]}})
    return state._replace(
        kind=replace(kind, devices=state.kind.devices), memory_groups=(1, 1 << 8), free_cpus=kind.cpus.cpus
    )


@pytest.mark.parametrize("policy", ["restricted", "best-effort"])
def test_a_choice_between_zones_with_a_gap_panics(policy: str) -> None:
    """The kubelet compares the distances of zones 0 and 8, unless only zone 8 can serve the pod."""
    state = gapped_state(policy, near=1, far=2)
    verdict = admit(state, pod(container(devices={GPU: 1}), qos="BestEffort"))
    assert (verdict.admitted, verdict.reason) == (False, "")
    assert verdict.message == (
        "its kubelet panics: with prefer-closest-numa-nodes it reads distances of NUMA nodes that do not exist"
    )
    verdict = admit(state, pod(container(devices={GPU: 2}), qos="BestEffort"))
    assert verdict.assignments[0].devices[0].zones == 1 << 8


@pytest.mark.parametrize("policy", ["restricted", "best-effort"])
def test_sets_that_are_not_preferred_are_compared_too(policy: str) -> None:
    """With a GPU of zone 0 and a NIC of zone 8, one hint may be both zones, and the other the resource's own zone."""
    kind = gapped((0, 8), policy)
    devices = node(2, devices={GPU: {1: 1}, NIC: {1 << 8: 1}}, release=(1, 35)).kind.devices
    kind = replace(kind, devices=devices, policies=kind.policies._replace(release=(1, 35)))
    state = node(2)._replace(kind=kind, memory_groups=(1, 1 << 8), device_free=(1, 1))
    verdict = admit(state, pod(container(devices={GPU: 1, NIC: 1}), qos="BestEffort"))
    assert verdict.message.startswith("its kubelet panics")


@pytest.mark.parametrize("policy", ["single-numa-node", "none"])
def test_the_option_changes_nothing_under_other_policies(policy: str) -> None:
    state = gapped_state(policy, near=1, far=2)
    assert admit(state, pod(container(devices={GPU: 1}), qos="BestEffort")).admitted


@given(st.integers(1, 5), st.data())
def test_order_of_sets(zones: int, data: st.DataObject) -> None:
    """According to the kubelet's own comparison, each set comes before the next one."""
    row = st.tuples(*[st.sampled_from([10, 12, 21, 32])] * zones)
    distances = data.draw(st.tuples(*[row] * zones))
    kind = replace(node().kind, zones=tuple(range(zones)), distances=distances)
    sets = range(1, 1 << zones)
    ordered = sets_by_closeness(distances) or sorted(sets, key=lambda zones: (zones.bit_count(), zones))
    assert sorted(ordered) == list(sets)
    assert all(closest(kind, Hint(a, True), Hint(b, True)).zones == a for a, b in pairwise(ordered))


def test_equal_distances_order_by_number() -> None:
    """In this case no order is stated."""
    assert sets_by_closeness(((10, 20, 20), (20, 10, 20), (20, 20, 10))) == ()
