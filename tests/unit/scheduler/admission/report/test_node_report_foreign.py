"""Objects of other agents: counts are read, guesses are listed, and no pod is rejected because of a guess."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.nrt import names
from zonewise_scheduler.admission.node import NodeState, Policies
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import PodsFingerprint, read_nrt

Object = dict[str, Any]
Counts = tuple[int, int, int]


def zone(number: int, **counts: Counts) -> Object:
    """Return a zone with the capacity, allocatable and available amount of each resource."""
    fields = ("capacity", "allocatable", "available")
    resources = [
        {"name": name.replace("_", "/"), **dict(zip(fields, map(str, sizes), strict=True))}
        for name, sizes in counts.items()
    ]
    return {"name": f"node-{number}", "type": "Node", "resources": resources}


def plain(*zones: Object, attributes: dict[str, str] | None = None, **more: Any) -> Object:
    pairs = [{"name": name, "value": value} for name, value in (attributes or {}).items()]
    return {"metadata": {"name": "n"}, "attributes": pairs, "zones": list(zones), **more}


def state_of(nrt: Object, **known: Any) -> NodeState:
    read = read_nrt(nrt, KindInterner(), **known)
    assert read.problems == ()
    assert read.state is not None
    return read.state


COUNT = st.integers(0, 40)


@given(st.lists(st.tuples(COUNT, COUNT, COUNT), min_size=1, max_size=4), st.sampled_from((None, 1, 2, 8)))
def test_cpus_are_synthesized_from_counts(drawn: list[Counts], threads: int | None) -> None:
    """Each zone has its capacity. CPUs that are not allocatable are reserved, and available CPUs are free."""
    ordered = [tuple(sorted(counts, reverse=True)) for counts in drawn]
    zones = [zone(number, cpu=counts) for number, counts in enumerate(ordered)]  # pyright: ignore[reportArgumentType]
    state = state_of(plain(*zones), threads=threads)
    cpus = state.kind.cpus
    assert not cpus.exact
    static = any(allocatable for _, allocatable, _ in ordered)
    groups = dict(cpus.zones)
    for number, (capacity, allocatable, available) in enumerate(ordered):
        bits = groups.get(number, 0)
        assert bits.bit_count() == capacity
        assert (bits & cpus.reserved).bit_count() == capacity - allocatable
        assert (bits & state.free_cpus).bit_count() == (available if static else 0)
        sizes = [core.bit_count() for _, core in cpus.cores if core & bits]
        assert sum(sizes) == capacity
        assert all(size == (threads or 1) for size in sizes[:-1])
    assert not state.free_cpus & cpus.reserved


def test_cores_of_known_size_are_synthesized() -> None:
    """As many whole cores as possible are free; the last core may be smaller."""
    state = state_of(plain(zone(0, cpu=(9, 8, 5))), threads=2)
    assert state.kind.cpus.cores == ((0, 0b11), (2, 0b1100), (4, 0b110000), (6, 0b11000000), (8, 1 << 8))
    assert (state.kind.cpus.reserved, state.free_cpus) == (1, 0b111110000)
    assert "which CPUs are free" in state.kind.unknown


def test_memory_and_devices() -> None:
    """No zone is in a group. Available amounts are limited to allocatable ones."""
    state = state_of(
        plain(zone(0, memory=(9, 8, 5), nvidia_gpu=(2, 2, 1)), zone(3, memory=(9, 8, 9), nvidia_gpu=(0, 0, 0)))
    )
    assert (state.kind.zones, state.kind.memory_types) == ((0, 3), ("memory",))
    assert (state.kind.allocatable, state.memory_free) == (((8,), (8,)), ((5,), (8,)))
    assert (state.memory_groups, state.memory_assigned) == ((1, 8), 1)
    assert [(device.resource, device.zones, device.total) for device in state.kind.devices] == [("nvidia/gpu", 1, 2)]


def test_under_restricted_no_zone_counts_as_assigned() -> None:
    """Otherwise pods would be rejected that the kubelet admits to the zones of an unreported group."""
    nrt = plain(zone(0, memory=(9, 8, 5)), attributes={"topologyManagerPolicy": "restricted"})
    assert state_of(nrt).memory_assigned == 0


@pytest.mark.parametrize(
    ("attributes", "deprecated", "policy", "scope"),
    [
        ({}, [], "none", "container"),
        ({"topologyManagerPolicy": "restricted", "topologyManagerScope": "pod"}, ["None"], "restricted", "pod"),
        ({"topologyManagerPolicy": "", "topologyManagerScope": ""}, [], "none", "container"),
        ({}, ["SingleNUMANodePodLevel", "None"], "single-numa-node", "pod"),
        ({}, ["BestEffort"], "best-effort", "container"),
        ({}, ["Unknown"], "none", "container"),
        ({"topologyManagerPolicy": "best-effort"}, ["RestrictedPodLevel"], "best-effort", "pod"),
    ],
)
def test_policies(attributes: dict[str, str], deprecated: list[str], policy: str, scope: str) -> None:
    """Each attribute takes precedence over the deprecated field."""
    nrt = plain(zone(0, cpu=(4, 4, 4)), attributes=attributes, topologyPolicies=deprecated)
    policies = state_of(nrt).kind.policies
    assert (policies.topology, policies.scope) == (policy, scope)


@pytest.mark.parametrize(
    ("counts", "cpu", "memory"),
    [
        ({"cpu": (4, 4, 4), "memory": (4, 4, 4)}, "static", "Static"),
        ({"cpu": (4, 0, 0)}, "none", "None"),
        ({"nvidia_gpu": (1, 1, 1)}, "none", "None"),
        ({"cpu": (4, 3, 0), "hugepages-2Mi": (4, 4, 4)}, "static", "Static"),
    ],
)
def test_managers_are_guessed_by_their_allocatable_resources(counts: dict[str, Counts], cpu: str, memory: str) -> None:
    """Without the static policy, resource-topology-exporter reports only the capacity of CPUs."""
    kind = state_of(plain(zone(0, **counts))).kind
    assert (kind.policies.cpu, kind.policies.memory) == (cpu, memory)
    assert any("policies" in fact for fact in kind.unknown)


@pytest.mark.parametrize(
    ("policy", "memory", "is_unknown"),
    [("best-effort", "Static", True), ("single-numa-node", "Static", False), ("best-effort", "None", False)],
)
def test_groups_of_zones_are_unknown(policy: str, memory: str, is_unknown: bool) -> None:
    """Counts do not show groups. Without pinned memory, or if zones allocate separately, there are none."""
    known = Policies(topology=policy, cpu="static", memory=memory)
    kind = state_of(plain(zone(0, cpu=(4, 4, 4), memory=(9, 9, 9))), policies=known).kind
    assert ("zones that allocate memory as a group" in kind.unknown) is is_unknown


def test_cores_of_unknown_size_have_one_cpu() -> None:
    assert state_of(plain(zone(0, cpu=(3, 3, 3)))).kind.cpus.cores == ((0, 1), (1, 2), (2, 4))


@pytest.mark.parametrize("number", [63, 64, 65])
def test_distances_of_zones_beyond_the_masks_are_not_read(number: int) -> None:
    """The kubelet cannot represent sets with such zones: it panics."""
    zones = [zone(0, cpu=(1, 1, 1)), zone(number, cpu=(1, 1, 1))]
    for each in zones:
        each["costs"] = [{"name": "node-0", "value": 10}, {"name": f"node-{number}", "value": 20}]
    assert state_of(plain(*zones)).kind.distances == (((10, 20), (10, 20)) if number < 64 else ())


def test_zones_without_a_distance_are_unreachable() -> None:
    """A distance in one direction counts for both; ACPI uses 255 for no path."""
    zones = [zone(0, cpu=(1, 1, 1)), zone(1, cpu=(1, 1, 1)), zone(2, cpu=(1, 1, 1))]
    zones[0]["costs"] = [{"name": "node-0", "value": 10}, {"name": "node-1", "value": 20}]
    assert state_of(plain(*zones)).kind.distances == ((10, 20, 255), (20, 255, 255), (255, 255, 255))


def test_a_zone_has_no_memory_of_unreported_types() -> None:
    state = state_of(plain(zone(0, memory=(9, 8, 5)), zone(1, cpu=(1, 1, 1))))
    assert (state.kind.allocatable, state.memory_free) == (((8,), (0,)), ((5,), (0,)))


def test_used_zones_count_as_assigned() -> None:
    zones = (zone(0, memory=(9, 8, 5)), zone(1, memory=(9, 8, 8)), zone(3, memory=(9, 8, 5)))
    assert state_of(plain(*zones)).memory_assigned == 0b1001


def test_only_our_agent_reports_the_policies_of_the_managers() -> None:
    """The policies of another agent's object are guessed even if it has such an attribute."""
    nrt = plain(zone(0, cpu=(4, 4, 4)), attributes={names.CPU_MANAGER_POLICY: "none"})
    kind = state_of(nrt).kind
    assert kind.policies.cpu == "static"
    assert "the policies and options of the CPU Manager and the Memory Manager" in kind.unknown


@pytest.mark.parametrize(
    ("attributes", "deprecated", "is_unknown"),
    [
        ({}, [], True),
        ({names.TOPOLOGY_MANAGER_POLICY: "none"}, [], False),
        ({}, ["None"], False),
        ({names.TOPOLOGY_MANAGER_POLICY: "none"}, ["None"], False),
    ],
)
def test_a_policy_that_is_not_reported_is_unknown(
    attributes: dict[str, str], deprecated: list[str], is_unknown: bool
) -> None:
    """It may be reported by an attribute or by the deprecated field."""
    kind = state_of(plain(zone(0, cpu=(4, 4, 4)), attributes=attributes, topologyPolicies=deprecated)).kind
    assert ("the Topology Manager's policy" in kind.unknown) is is_unknown


@pytest.mark.parametrize(("memory", "is_unknown"), [("Static", True), ("None", False)])
def test_memory_that_is_not_reported_is_unknown(memory: str, is_unknown: bool) -> None:
    """Memory is unknown only if the kubelet is known to allocate it."""
    kind = state_of(plain(zone(0, cpu=(4, 4, 4))), policies=Policies(cpu="static", memory=memory)).kind
    assert kind.policies.memory == "None"
    assert ("the memory that the kubelet allocates" in kind.unknown) is is_unknown


@pytest.mark.parametrize(("cpu", "is_unknown"), [("static", True), ("none", False)])
def test_cpus_that_are_not_reported_are_unknown(cpu: str, is_unknown: bool) -> None:
    """CPUs are unknown only if the kubelet is known to allocate them."""
    kind = state_of(plain(zone(0, memory=(4, 4, 4))), policies=Policies(cpu=cpu, memory="Static")).kind
    assert kind.policies.cpu == "none"
    assert ("the CPUs that the kubelet allocates" in kind.unknown) is is_unknown


def test_known_policies_are_not_guessed() -> None:
    """A manager without reported resources rejects no pod, and its resource is listed as unknown."""
    known = Policies(topology="restricted", cpu="static", memory="Static", full_cores=True, release=(1, 34))
    nrt = plain(zone(0, cpu=(4, 4, 4)), attributes={"topologyManagerPolicy": "none"})
    kind = state_of(nrt, policies=known, threads=2).kind
    assert kind.policies == known._replace(memory="None")
    assert kind.unknown[0] == "the memory that the kubelet allocates"
    assert not any("policies" in fact for fact in kind.unknown)


@pytest.mark.parametrize(
    ("attributes", "annotations", "expected"),
    [
        ({}, {}, ()),
        ({"nodeTopologyPodsFingerprint": "x"}, {}, (PodsFingerprint("all", "x"),)),
        (
            {"nodeTopologyPodsFingerprint": "x", "nodeTopologyPodsFingerprintMethod": "with-exclusive-resources"},
            {"topology.node.k8s.io/fingerprint": "y"},
            (PodsFingerprint("with-exclusive-resources", "x"),),
        ),
        ({}, {"topology.node.k8s.io/fingerprint": "y"}, (PodsFingerprint("all", "y"),)),
        ({}, {"topology.node.k8s.io/fingerprint": 5}, ()),
    ],
)
def test_fingerprints(attributes: dict[str, str], annotations: Object, expected: tuple[PodsFingerprint, ...]) -> None:
    """The attribute takes precedence over the older annotation."""
    nrt = plain(zone(0), attributes=attributes)
    nrt["metadata"]["annotations"] = annotations
    assert read_nrt(nrt, KindInterner()).fingerprints == expected


def test_zones_of_other_types_are_skipped() -> None:
    """Only zonewise's agent writes NUMA nodes of types other than Node."""
    zones = {"name": "memory-1", "type": "MemoryOnly"}, {"name": "x", "type": "Core"}, {"name": "package-0", "type": 5}
    assert state_of(plain(zone(0), *zones)).kind.zones == (0,)
    read = read_nrt(plain(*zones), KindInterner())
    assert (read.state, read.problems) == (None, ("zones: no zone of type Node could be read",))


def test_more_cpus_than_any_machine_has() -> None:
    """A damaged number must not consume memory."""
    read = read_nrt(plain(zone(0, cpu=(10**15, 1, 1)), zone(1, cpu=(4, 4, 4))), KindInterner())
    assert read.problems == ("zone 0 cpu: more than 8192: 1000000000000000",)
    assert read.state is not None
    assert read.state.kind.cpus.zones == ((1, 0b1111),)


@pytest.mark.parametrize(("first", "is_read"), [(8188, True), (8189, False)])
def test_the_zones_together_have_up_to_8192_cpus(first: int, is_read: bool) -> None:
    read = read_nrt(plain(zone(0, cpu=(first, 1, 1)), zone(1, cpu=(4, 4, 4))), KindInterner())
    assert read.state is not None
    assert [number for number, _ in read.state.kind.cpus.zones] == ([0, 1] if is_read else [0])
