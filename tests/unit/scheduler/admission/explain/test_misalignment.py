"""Explanations for resources that have no zones in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.explanations import AMD, explained, four_of_eight
from support.fit_nodes import GIB, GPU, NIC, STATIC, container, node, pod, zone_cpus
from zonewise_scheduler.admission.aligned_requests import AlignedRequest
from zonewise_scheduler.admission.explain.misalignment import memory_in_words
from zonewise_scheduler.admission.explain.phrases import amount
from zonewise_scheduler.admission.memorymanager.memory_allocation import update_machine_state

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (pod(container(cpus=6, gib=1)), "needs 6 CPUs in one zone; zone 0 has 4 free, zone 1 has 4"),
        (pod(container(cpus=9, gib=1)), "needs 9 CPUs; 8 are free"),
        (
            pod(container(devices={GPU: 3}), qos="BestEffort"),
            f"needs 3 {GPU} in one zone; no zone has that many, even when idle",
        ),
        (
            pod(container(devices={GPU: 4}), qos="BestEffort"),
            f"needs 4 {GPU}; near all zones together, 3 are free",
        ),
        (
            pod(container(devices={GPU: 2, NIC: 1}), qos="BestEffort"),
            f"needs 2 {GPU} and 1 {NIC} in one zone; 2 {GPU} fit zone 0 only and 1 {NIC} fits zone 1 only",
        ),
        (
            pod(container("c0", 2, 1), container("c1", 6, 1)),
            "container c1 needs 6 CPUs in one zone; zone 0 has 2 free, zone 1 has 4",
        ),
        (pod(container(cpus=1, gib=20)), "needs 20 GiB of memory in one zone; no zone has that much, even when idle"),
    ],
)
def test_no_zone_has_enough(shape: PodShape, words: str) -> None:
    """The explanation states what the pod needs and what each zone has."""
    assert explained(four_of_eight(), shape) == words


def test_restricted_uses_as_few_zones_as_an_idle_node() -> None:
    state = node(4, 4, topology="restricted", cpu="static")
    state = state._replace(free_cpus=zone_cpus(state, 1) | 0b11)
    assert explained(state, pod(container(cpus=12, gib=1))) == "needs 12 CPUs; 10 are free"
    busy = state._replace(free_cpus=zone_cpus(state, 1) | 0b111 | 0b111 << 16)
    shape = pod(container(cpus=14, gib=1))
    assert explained(busy, shape) == (
        "needs 14 CPUs in 2 zones; zone 0 has 3 free, zone 1 has 8, zone 2 has 3, zone 3 has 0"
    )


@pytest.mark.parametrize("resource", [GPU, AMD])
def test_restricted_needs_devices_of_as_few_zones_as_an_idle_node(resource: str) -> None:
    state = node(4, 4, devices={resource: dict.fromkeys((1, 2, 4, 8), 2)}, topology="restricted", cpu="static")
    busy = state._replace(device_free=(1, 1, 1, 1))
    assert explained(busy, pod(container(devices={resource: 3}), qos="BestEffort")) == (
        f"needs 3 {resource} in 2 zones; zone 0 has 1 free, zone 1 has 1, zone 2 has 1, zone 3 has 1"
    )


def test_restricted_needs_the_same_zones_for_all_resources() -> None:
    state = node(2, 4, devices={GPU: {1: 1, 2: 1}}, topology="restricted", **STATIC)
    assert explained(state, pod(container(cpus=12, gib=1, devices={GPU: 1}))) == (
        f"needs 1 {GPU} from one zone, 12 CPUs from 2 zones and 1 GiB of memory from one zone; "
        "policy restricted requires the same zones for all"
    )


def without_gib(state: NodeState, *taken: tuple[int, int]) -> NodeState:
    """Allocate memory in sets of zones; return the new state."""
    for zones, size in taken:
        state = update_machine_state(state, zones, "memory", size * GIB)
    return state


@pytest.mark.parametrize(
    ("cpus", "gib", "gpus", "nics", "words"),
    [
        (2, 1, 1, 1, f"1 {GPU} fits zone 0 only and 1 {NIC} fits zone 1 only"),
        (6, 1, 1, 1, f"1 {GPU} and 6 CPUs fit zone 0 only and 1 {NIC} fits zone 1 only"),
        (2, 4, 1, 1, f"1 {GPU} fits zone 0 only and 1 {NIC} and 4 GiB of memory fit zone 1 only"),
        (2, 4, 2, 0, f"2 {GPU} fit zone 0 only and 4 GiB of memory fits zone 1 only"),
        (1, 4, 1, 0, f"1 {GPU} fits zone 0 only and 4 GiB of memory fits zone 1 only"),
        (6, 4, 0, 0, "6 CPUs fit zone 0 only and 4 GiB of memory fits zone 1 only"),
    ],
)
def test_resources_that_fit_in_different_zones(cpus: int, gib: int, gpus: int, nics: int, words: str) -> None:
    """Resources that fit in the same zone are listed together, and resources that fit in every zone are left out."""
    state = without_gib(node(2, 4, devices={GPU: {1: 2}, NIC: {2: 1}}, topology="single-numa-node", **STATIC), (1, 14))
    state = state._replace(free_cpus=zone_cpus(state, 0) | 0b11 << 8)
    devices = {name: number for name, number in ((GPU, gpus), (NIC, nics)) if number}
    where = explained(state, pod(container(cpus=cpus, gib=gib, devices=devices)))
    assert where.partition("; ")[0].endswith(" in one zone")
    assert where.partition("; ")[2] == words


def test_several_pairs_of_zones() -> None:
    """Each pair of zones is listed."""
    state = node(4, 4, devices={GPU: {1: 1, 2: 1}, NIC: {2: 1, 4: 1, 8: 1}}, topology="restricted")
    assert explained(state, pod(container(devices={GPU: 2, NIC: 2}), qos="BestEffort")) == (
        f"needs 2 {GPU} and 2 {NIC} in the same zones; "
        f"2 {GPU} fit zones 0 and 1 only and 2 {NIC} fit zones 1 and 2 or 1 and 3 or 2 and 3 only"
    )


@pytest.mark.parametrize(
    ("cpus", "words"),
    [(2, f"needs 2 {GPU}, 1 {NIC}, 2 CPUs and 1 GiB of memory"), (0, f"needs 2 {GPU}, 1 {NIC} and 1 GiB of memory")],
)
def test_more_zones_than_are_listed(cpus: int, words: str) -> None:
    """Finding the cause would require all sets of zones, so it is not stated."""
    devices = {GPU: {1: 2}, NIC: {1 << 11: 1}}
    state = node(12, 1, devices=devices, topology="restricted", max_zones=16, **STATIC)
    shape = pod(container(cpus=cpus, gib=1, devices={GPU: 2, NIC: 1}))
    assert explained(state, shape) == f"{words} in the same zones; no set of its 12 zones has that"


@pytest.mark.parametrize(
    ("cpus", "words"),
    [
        (8, "needs 8 CPUs in one zone; zone 0 has 7 free, zone 1 has 6, zone 2 has 6"),
        (9, ""),
        (14, "needs 14 CPUs in 2 zones; zone 0 has 7 free, zone 1 has 6, zone 2 has 6"),
        (16, "needs 16 CPUs in 2 zones; zone 0 has 7 free, zone 1 has 6, zone 2 has 6"),
        (17, ""),
        (19, ""),
        (20, "needs 20 CPUs; 19 are free"),
    ],
)
def test_cpus_need_as_few_zones_as_an_idle_node(cpus: int, words: str) -> None:
    """Each zone has eight CPUs."""
    state = node(3, 4, topology="restricted", cpu="static")._replace(free_cpus=0x3F3F7F)
    assert explained(state, pod(container(cpus=cpus, gib=1))) == words


@pytest.mark.parametrize(
    ("inits", "count", "free"), [(1, 6, "5 are free"), (3, 6, "5 are free"), (0, 6, "5 are free"), (4, 7, "5 are free")]
)
def test_devices_near_any_zone(inits: int, count: int, free: str) -> None:
    """Devices left by ended init containers count, and devices without a zone do not."""
    state = node(2, devices={GPU: {0: 1, 1: 4, 2: 1}}, topology="restricted")
    init = [container("i0", devices={GPU: inits}, role="init")] if inits else []
    words = explained(state, pod(*init, container("c0", devices={GPU: count}), qos="BestEffort"))
    name = "container c0 " if inits else ""
    assert words == f"{name}needs {count} {GPU}; near all zones together, {free}"


def test_a_device_near_several_zones_counts_in_each() -> None:
    state = node(3, devices={GPU: {0: 1, 1: 1, 6: 2}}, topology="single-numa-node")._replace(device_free=(1, 1, 1))
    assert explained(state, pod(container(devices={GPU: 2}), qos="BestEffort")) == (
        f"needs 2 {GPU} in one zone; zone 0 has 1 free, zone 1 has 1, zone 2 has 1"
    )


@pytest.mark.parametrize(
    ("taken", "words"),
    [
        (
            ((0b011, 4), (0b100, 4)),
            "zones 0 and 1 already share memory and allocate it only together; zone 2 allocates it only separately",
        ),
        (((0b001, 4), (0b010, 5), (0b100, 6)), "zones 0, 1 and 2 allocate it only separately"),
        (
            ((0b101, 12), (0b010, 4)),
            "zones 0 and 2 already share memory and allocate it only together; zone 1 allocates it only separately",
        ),
        (
            ((0b110, 12), (0b001, 4)),
            "zones 1 and 2 already share memory and allocate it only together; zone 0 allocates it only separately",
        ),
    ],
)
def test_zones_that_allocate_memory_together_or_separately(taken: tuple[tuple[int, int], ...], words: str) -> None:
    """The explanation states this after what each zone has."""
    state = without_gib(node(3, 2, gib=8, topology="restricted", **STATIC), *taken)
    assert explained(state, pod(container(cpus=1, gib=5))).split("; ", 2)[2] == words


@pytest.mark.parametrize(
    ("pages", "gib", "words"),
    [
        (2, 17, ["of memory zone 0 has 16 GiB free, zone 1 has 16 GiB"]),
        (3, 16, ["of hugepages-1Gi zone 0 has 2 GiB free, zone 1 has 2 GiB"]),
        (
            3,
            17,
            [
                "of hugepages-1Gi zone 0 has 2 GiB free, zone 1 has 2 GiB",
                "of memory zone 0 has 16 GiB free, zone 1 has 16 GiB",
            ],
        ),
    ],
)
def test_sufficient_types_of_memory_are_left_out(pages: int, gib: int, words: list[str]) -> None:
    memory = (("hugepages-1Gi", pages * GIB), ("memory", gib * GIB))
    assert memory_in_words(node(2, pages=2, **STATIC), AlignedRequest(0, memory, ())) == words


def test_the_last_of_ten_zones_allocates_memory_separately() -> None:
    state = without_gib(node(10, 1, gib=2, topology="none", **STATIC), (1 << 9, 1))
    assert explained(state, pod(container(cpus=1, gib=30))) == (
        "needs 30 GiB of memory from the same zones; none of the 10 zones has more than 2 GiB free; "
        "zone 9 allocates it only separately"
    )


def test_pairs_of_distant_zones() -> None:
    state = node(4, devices={GPU: {1: 1, 2: 1}, NIC: {1: 2, 4: 1, 8: 1}}, topology="restricted")
    assert explained(state, pod(container(devices={GPU: 2, NIC: 3}), qos="BestEffort")).partition("; ")[2] == (
        f"2 {GPU} fit zones 0 and 1 only and 3 {NIC} fit zones 0 and 2 or 0 and 3 only"
    )


def test_a_quantity_of_0_fits_near_its_devices() -> None:
    state = node(2, devices={GPU: {1: 1}, NIC: {2: 1}}, topology="single-numa-node")
    assert explained(state, pod(container(devices={GPU: 0, NIC: 1}), qos="BestEffort")) == (
        f"needs 0 {GPU} and 1 {NIC} in one zone; 0 {GPU} fit zone 0 only and 1 {NIC} fits zone 1 only"
    )


@pytest.mark.parametrize("zone", [0, 1, 2])
@pytest.mark.parametrize("resource", ["cpu", AMD, GPU])
@pytest.mark.parametrize(("others", "is_enough"), [(0, False), (2, True)])
def test_containers_keep_resources_of_init_containers(resource: str, zone: int, others: int, is_enough: bool) -> None:
    """Of eight in each zone, one zone has seven left, enough only for the init container; the others have fewer."""
    state = node(3, 4, devices={AMD: {1: 8, 2: 8, 4: 8}, GPU: {1: 8, 2: 8, 4: 8}}, topology="restricted", cpu="static")
    left = [7 if each == zone else others for each in range(3)]
    state = state._replace(
        free_cpus=sum((1 << count) - 1 << 8 * each for each, count in enumerate(left)), device_free=(*left, *left)
    )
    few, many = (
        container(name, number, 1) if resource == "cpu" else container(name, devices={resource: number})
        for name, number in (("i0", 3), ("c0", 8))
    )
    qos = "Guaranteed" if resource == "cpu" else "BestEffort"
    words = explained(state, pod(few._replace(role="init"), many, qos=qos))
    if is_enough:
        assert words.startswith(f"container c0 needs {amount(resource, 8)} in one zone; zone 0 has ")
        assert words.endswith(f"; it has to keep those that its init containers had in zone {zone}")
    else:
        all_together = "" if resource == "cpu" else "near all zones together, "
        assert words == f"container c0 needs {amount(resource, 8)}; {all_together}7 are free"


def test_different_pairs_of_zones() -> None:
    """Each resource fits in two of three zones, but not in the same two."""
    state = node(3, 4, devices={GPU: {1: 1, 4: 1}}, topology="restricted", cpu="static")
    state = state._replace(free_cpus=zone_cpus(state, 0, 1))
    assert explained(state, pod(container(cpus=10, gib=1, devices={GPU: 2}))) == (
        f"needs 2 {GPU} and 10 CPUs in the same zones; "
        f"2 {GPU} fit zones 0 and 2 only and 10 CPUs fit zones 0 and 1 only"
    )


def test_reusable_resources_restrict_zones() -> None:
    state = node(2, 4, devices={GPU: {1: 1, 2: 2}, NIC: {1: 1}}, topology="single-numa-node")
    init = container("i0", devices={GPU: 1, NIC: 1}, role="init")
    assert explained(state, pod(init, container("c0", devices={GPU: 2}), qos="BestEffort")) == (
        f"container c0 needs 2 {GPU} in one zone; zone 0 has 0 free, zone 1 has 2; "
        "it has to keep those that its init containers had in zone 0"
    )
    cpus = node(3, 4, topology="restricted", cpu="static")
    cpus = cpus._replace(free_cpus=zone_cpus(cpus, 0) | 0b1111 << 8 | 0b1111 << 16)
    shape = pod(container("i0", 2, 1, role="init"), container("i1", 4, 1, role="init"), container("c0", 6, 1))
    busy = cpus._replace(free_cpus=0b1111 << 8 | zone_cpus(cpus, 2))
    assert explained(busy, shape) == (
        "container c0 needs 6 CPUs in one zone; zone 0 has 0 free, zone 1 has 0, zone 2 has 8; "
        "it has to keep those that its init containers had in zone 1"
    )


def test_init_containers_keep_a_pod_in_their_zone() -> None:
    """The init container gets zone 1, because zone 0 has too few free CPUs."""
    cpus = node(2, 4, topology="restricted", cpu="static")
    cpus = cpus._replace(free_cpus=0b1 | 0b111111 << 8)
    assert explained(cpus, pod(container("i0", 2, 1, role="init"), container("c0", 7, 1))) == (
        "container c0 needs 7 CPUs in one zone; zone 0 has 1 free, zone 1 has 4; "
        "it has to keep those that its init containers had in zone 1"
    )
