"""Our agent's object read into a state: it is complete, damage is reported, and no object raises an error."""

from __future__ import annotations

import copy
import gc
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.kubelet_reports import CONFIG, GIB, make_allocatable, make_node
from support.machine_parts import CacheSizes, Processors, processors, with_distances
from support.machines import grace_blackwell, tiered_memory
from support.state_file_nodes import config_policies
from zonewise.kubelet.types import (
    Allocatable,
    ContainerDevices,
    ContainerResources,
    DeviceCheckpoint,
    KubeletConfig,
    KubeletReport,
    MemoryBlock,
    PodResources,
    StateFiles,
)
from zonewise.objects.nrt import machine_to_nrt
from zonewise.usage.node_usage import node_usage
from zonewise.usage.types import Usage
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt import names
from zonewise_common.nrt.holdings import NODE
from zonewise_scheduler.admission.node import NO_ZONE, DeviceClass, NodeState, Policies, idle_node
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import NodeReport, PodsFingerprint, read_nrt

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine

Object = dict[str, Any]
TWO = make_node((0, 1))


def published(machine: Machine, report: KubeletReport) -> Object:
    usage = node_usage(machine, report)
    assert isinstance(usage, Usage)
    return machine_to_nrt(machine, "n", usage, report.config)


def report_of(machine: Machine, *pods: PodResources, devices: tuple[ContainerDevices, ...] = ()) -> KubeletReport:
    return KubeletReport(pods, make_allocatable(machine, devices), CONFIG)


def state_of(report: NodeReport) -> NodeState:
    assert report.problems == ()
    assert report.state is not None
    assert report.state.kind.unknown == ()
    return report.state


def read(machine: Machine, report: KubeletReport) -> NodeState:
    return state_of(read_nrt(published(machine, report), KindInterner()))


# --- everything comes back


@given(st.tuples(*(st.integers(1, 3) for _ in range(5))), st.data())
def test_cpus(counts: tuple[int, int, int, int, int], data: st.DataObject) -> None:
    """Cores, zones, packages, L3 groups, reserved and free CPUs of any machine."""
    shape = Processors(*counts)
    machine = processors(shape, CacheSizes(0, 0, 0, 32 << 20), "model", GIB)
    online = sorted(machine.cpus.online)
    reserved = CpuSet(data.draw(st.sets(st.sampled_from(online), max_size=len(online) - 1)))
    unreserved = sorted(machine.cpus.online - reserved)
    held = CpuSet(data.draw(st.sets(st.sampled_from(unreserved))))
    allocatable = Allocatable(machine.cpus.online - reserved, (), (MemoryBlock("memory", GIB, (0,)),))
    state = read(
        machine, KubeletReport((PodResources("n", "p", (ContainerResources("c", held),)),), allocatable, CONFIG)
    )
    cpus = state.kind.cpus
    assert cpus.exact
    assert cpus.cores == tuple(sorted((core.cpus.first(), core.cpus.bits) for core in machine.cores))
    assert cpus.zones == tuple((zone.id, zone.cpus.bits) for zone in machine.zones)
    assert [bits for _, bits in cpus.packages] == [package.cpus.bits for package in machine.packages]
    groups = [cache.cpus.bits for cache in machine.caches if cache.level == 3]
    assert [bits for _, bits in cpus.caches] == (groups if shape.l3_groups > 1 else [])
    assert cpus.reserved == reserved.bits
    assert state.free_cpus == (machine.cpus.online - reserved - held).bits


ZONE_SETS = st.frozensets(st.integers(0, 3), max_size=3)


@given(st.lists(st.tuples(st.sampled_from("abc"), ZONE_SETS, st.booleans()), max_size=12))
def test_devices(drawn: list[tuple[str, frozenset[int], bool]]) -> None:
    """Each device counts in the class of its resource and zones, free or held."""
    machine = make_node((0, 1, 2, 3))
    devices = tuple(
        ContainerDevices(f"r/{kind}", (str(number),), tuple(sorted(zones)))
        for number, (kind, zones, _) in enumerate(drawn)
    )
    pods = tuple(
        PodResources("n", str(number), (ContainerResources("c", devices=(devices[number],)),))
        for number, (_, _, held) in enumerate(drawn)
        if held
    )
    counts: dict[tuple[str, int], list[int]] = {}
    for kind, zones, held in drawn:
        count = counts.setdefault((f"r/{kind}", sum(1 << zone for zone in zones)), [0, 0])
        count[0] += 1
        count[1] += not held
    state = read(machine, report_of(machine, *pods, devices=devices))
    expected = sorted((DeviceClass(*key, total, total), free) for key, (total, free) in counts.items())
    assert list(zip(state.kind.devices, state.device_free, strict=True)) == expected


def test_devices_of_absent_zones() -> None:
    """The zones that a plugin names count for the kubelet, also where the machine lacks them, such as -1."""
    devices = (
        ContainerDevices("r/d", ("a", "b"), (-1,)),
        ContainerDevices("r/d", ("c",), (7, 9)),
        ContainerDevices("r/d", ("d",), (1, 9)),
        ContainerDevices("r/d", ("e",), ()),
        ContainerDevices("r/e", ("f",), (-1,)),
    )
    held = PodResources("n", "p", (ContainerResources("c", devices=(ContainerDevices("r/d", ("b",), (-1,)),)),))
    report = report_of(TWO, held, devices=devices)
    state = read_nrt(published(TWO, report), KindInterner()).state
    assert state is not None
    assert dict(zip(((each.resource, each.zones) for each in state.kind.devices), state.device_free, strict=True)) == {
        ("r/d", 0): 1,
        ("r/d", 2): 1,
        ("r/d", 1 << 7 | 1 << 9): 1,
        ("r/d", NO_ZONE): 1,
        ("r/e", NO_ZONE): 1,
    }
    assert sum(device.total for device in state.kind.devices) == 6


def test_a_resource_without_healthy_devices() -> None:
    """The kubelet rejects pods that request it, so the class is listed with a count of 0."""
    files = StateFiles(devices=DeviceCheckpoint((), {"r/gone": ("x",), "r/d": ("a",)}))
    report = report_of(TWO, devices=(ContainerDevices("r/d", ("a",), (1,)),))._replace(state=files)
    assert read(TWO, report).kind.devices == (DeviceClass("r/d", 2, 1, 1), DeviceClass("r/gone", 0, 0, 0))


def test_memory() -> None:
    """By zone and type, with the groups and the zones with assigned memory."""
    block = MemoryBlock("memory", 20 * GIB, (0, 1))
    hugepages = MemoryBlock("hugepages-2Mi", 1 << 21, (2,))
    machine = make_node((0, 1, 2))
    state = read(
        machine,
        report_of(
            machine,
            PodResources(
                "n", "p", (ContainerResources("c", memory=(block,)), ContainerResources("d", memory=(hugepages,)))
            ),
        ),
    )
    assert state.kind.memory_types == ("hugepages-2Mi", "memory")
    assert state.kind.allocatable == ((GIB, 15 * GIB),) * 3
    assert state.memory_free == ((GIB, 0), (GIB, 10 * GIB), (GIB - (1 << 21), 15 * GIB))
    assert (state.memory_groups, state.memory_assigned) == ((3, 3, 4), 7)


def test_only_other_agents_poll() -> None:
    """Ours publishes after each change."""
    assert not read_nrt(published(TWO, report_of(TWO)), KindInterner()).is_polled
    assert read_nrt({"zones": [{"name": "node-0", "type": "Node"}]}, KindInterner()).is_polled


def test_no_memory_manager() -> None:
    """It allocates nothing, so the report has nothing of it."""
    config = CONFIG._replace(memory_manager_policy="None")
    allocatable = Allocatable(TWO.cpus.online - CpuSet((0,)))
    state = read(TWO, KubeletReport((), allocatable, config))
    assert (state.kind.memory_types, state.kind.allocatable, state.memory_free, state.memory_groups) == ((), (), (), ())


def test_no_cpu_manager() -> None:
    """Without the static policy no CPU can be allocated; the running kubelet counts, not its configuration."""
    nrt = published(TWO, KubeletReport((), Allocatable(), KubeletConfig()))
    for configured in ("none", "static"):
        set_attribute(nrt, names.CPU_MANAGER_POLICY, configured)
        state = state_of(read_nrt(nrt, KindInterner()))
        assert (state.free_cpus, state.kind.policies.cpu) == (0, "none")


@pytest.mark.parametrize("cpu", ["static", "none"])
@pytest.mark.parametrize("memory", ["Static", "None"])
def test_a_node_without_pods_is_idle(cpu: str, memory: str) -> None:
    """With any combination of managers."""
    config = CONFIG._replace(cpu_manager_policy=cpu, memory_manager_policy=memory)
    devices = (ContainerDevices("r/d", ("a", "b"), (0, 1)), ContainerDevices("r/d", ("c",), ()))
    allocatable = make_allocatable(TWO, devices)
    reported = allocatable if memory == "Static" else allocatable._replace(memory=())
    state = read(TWO, KubeletReport((), reported, config))
    assert state == idle_node(state.kind)


def test_zones_without_cpus_or_memory() -> None:
    """The Topology Manager's masks have a bit for every NUMA node, reserved for later memory or not."""
    for build in (tiered_memory, grace_blackwell):
        machine = build()
        memory = tuple(MemoryBlock("memory", GIB, (zone.id,)) for zone in machine.zones if zone.memory)
        allocatable = Allocatable(machine.cpus.online - CpuSet((0,)), (), memory)
        state = read_nrt(published(machine, KubeletReport((), allocatable, CONFIG)), KindInterner()).state
        assert state is not None
        assert state.kind.zones == tuple(sorted(zone.id for zone in machine.zones))
        expected = [(GIB if zone.memory else 0) for zone in sorted(machine.zones)]
        assert [row[state.kind.memory_types.index("memory")] for row in state.memory_free] == expected


def test_distances() -> None:
    matrix = ((10, 32), (21, 10))
    machine = with_distances(TWO, matrix)
    assert read(machine, report_of(machine)).kind.distances == matrix


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        CONFIG._replace(topology_manager_policy="restricted", topology_manager_scope="pod"),
        CONFIG._replace(topology_manager_options=(("max-allowable-numa-nodes", "16"),)),
        CONFIG._replace(topology_manager_options=(("prefer-closest-numa-nodes", "true"),)),
        CONFIG._replace(cpu_manager_options=(("align-by-socket", "1"), ("full-pcpus-only", "T"))),
        CONFIG._replace(cpu_manager_options=(("distribute-cpus-across-numa", "t"), ("strict-cpu-reservation", "0"))),
        CONFIG._replace(cpu_manager_options=(("distribute-cpus-across-cores", "true"),)),
        CONFIG._replace(cpu_manager_options=(("prefer-align-cpus-by-uncorecache", "true"),)),
        CONFIG._replace(feature_gates=(("Other", True), ("PodLevelResourceManagers", True))),
    ],
)
def test_policies(config: KubeletConfig) -> None:
    """Every option that decides is reported, with the kubelet's release."""
    nrt = published(TWO, report_of(TWO)._replace(config=config))
    state = state_of(read_nrt(nrt, KindInterner(), release=(1, 33), policies=Policies(topology="none", cpu="none")))
    assert state.kind.policies == config_policies(config, (1, 33))
    assert state.kind.policies.pod_level_managers == (("PodLevelResourceManagers", True) in config.feature_gates)


def test_fingerprints_and_metadata() -> None:
    """Both fingerprints, the version, and the name of the node."""
    machine_report = report_of(
        TWO, PodResources("n", "p", (ContainerResources("c", CpuSet((1,))),)), PodResources("n", "q")
    )
    nrt = published(TWO, machine_report) | {"metadata": {"name": "n", "resourceVersion": "17"}}
    usage = node_usage(TWO, machine_report)
    assert isinstance(usage, Usage)
    read = read_nrt(nrt, KindInterner())
    assert (read.node, read.version) == ("n", "17")
    assert read.fingerprints == (
        PodsFingerprint("all", usage.fingerprint_all),
        PodsFingerprint("with-exclusive-resources", usage.fingerprint_exclusive),
    )


def test_an_object_without_a_kubelet() -> None:
    """`zonewise show` writes what an idle machine would have; nothing is predicted from that."""
    read = read_nrt(machine_to_nrt(TWO, "n"), KindInterner())
    assert read.state is None
    assert read.problems == ("zonewise.dev/usage: 'unknown': no kubelet was asked",)


# --- one value for all that are equal


def test_equal_nodes_share_their_values() -> None:
    """Their states share their parts as well. A kind is dropped with its last node."""
    interner = KindInterner()
    first, second = (state_of(read_nrt(published(TWO, report_of(TWO)), interner)) for _ in range(2))
    assert first == second
    assert first.kind is second.kind
    assert first.kind.cpus is second.kind.cpus
    assert all(a is b for a, b in zip(first[2:], second[2:], strict=True))
    count = len(interner)
    del first, second
    gc.collect()
    assert (count, len(interner)) == (1, 0)


# --- damage


def edited(path: tuple[str | int, ...], value: Any) -> Object:
    nrt = copy.deepcopy(published(TWO, report_of(TWO, devices=(ContainerDevices("r/d", ("a",), (0, 1)),))))
    owner: Any = nrt
    for step in path[:-1]:
        owner = owner[step]
    owner[path[-1]] = value
    return nrt


def attribute(name: str, value: object) -> Object:
    return {"name": name, "value": value}


def set_attribute(owner: Object, name: str, value: object) -> None:
    owner["attributes"] = [item for item in owner["attributes"] if item["name"] != name] + [attribute(name, value)]


FIRST = "zones", 0


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("metadata",), {}, "metadata.name: not a name: None"),
        (("metadata",), 5, "metadata: not an object: 5"),
        (("metadata", "name"), "", "metadata.name: not a name: ''"),
        (("metadata", "name"), 5, "metadata.name: not a name: 5"),
        (("attributes",), 5, "attributes: not a list: 5"),
        (("attributes", 0), {"name": 5}, "attributes[0]: not a name and its value: {'name': 5}"),
        (("zones",), None, "zones: there is none of type Node that could be read"),
        (("zones", 0), 5, "zones[0]: not an object: 5"),
        ((*FIRST, "name"), "node-x", "zones[0].name: not \"node-\" and the id of a NUMA node: 'node-x'"),
        ((*FIRST, "name"), "node-99999", "zones[0].name: not \"node-\" and the id of a NUMA node: 'node-99999'"),
        (("zones", 1, "name"), "node-0", "zones[1].name: 'node-0' is there already: the first is taken"),
        ((*FIRST, "resources", 1, "available"), "x", "zones[0].resources[1] (memory): not a quantity: 'x'"),
        ((*FIRST, "resources", 1, "available"), "-1", "zones[0].resources[1] (memory): negative: '-1'"),
        ((*FIRST, "resources", 1, "capacity"), [], "zones[0].resources[1] (memory): not a quantity: '[]'"),
        ((*FIRST, "resources", 1, "name"), "cpu", "zones[0].resources[1].name: 'cpu' is there already: the first"),
        ((*FIRST, "resources", 1, "name"), None, "zones[0].resources[1].name: not a name: None"),
        ((*FIRST, "costs", 0), {"name": "node-0"}, "zones[0].costs[0]: not a zone and its distance: {'name'"),
        ((*FIRST, "attributes"), [attribute(names.CPUS, "9-1")], "node-0 zonewise.dev/cpus: not a CPU range: '9-1'"),
    ],
)
def test_damaged_fields(path: tuple[str | int, ...], value: Any, problem: str) -> None:
    """The problem has the field and its value, and the rest of the object is read."""
    read = read_nrt(edited(path, value), KindInterner())
    assert [each for each in read.problems if each.startswith(problem)]
    if path not in (("zones",), ("attributes",)):
        assert read.state is not None
        assert 1 in read.state.kind.zones or 0 in read.state.kind.zones


def test_empty_zones_are_zones() -> None:
    """Those of the attribute, and no zone between them."""
    nrt = edited(("kind",), "")
    set_attribute(nrt, names.EMPTY_ZONES, "3,6-7")
    read = read_nrt(nrt, KindInterner())
    assert read.state is not None
    assert read.state.kind.zones == (0, 1, 3, 6, 7)


def test_what_excluded_pods_hold_counts_as_healthy_and_allocatable() -> None:
    """The kubelet's managers count it, though the object does not offer it."""
    devices = (ContainerDevices("r/d", ("a", "b", "c"), (1,)), ContainerDevices("r/e", ("d",), (1,)))
    nrt = published(TWO, report_of(TWO, devices=devices))
    before = state_of(read_nrt(nrt, KindInterner())).kind
    set_attribute(nrt, names.EXCLUDED, f"r/d@1=3,memory@0={GIB}")
    after = state_of(read_nrt(nrt, KindInterner())).kind
    assert before.devices == (DeviceClass("r/d", 2, 3, 3), DeviceClass("r/e", 2, 1, 1))
    assert after.devices == (DeviceClass("r/d", 2, 6, 6), DeviceClass("r/e", 2, 1, 1))
    column = before.memory_types.index("memory")
    assert [row[column] for row in after.allocatable] == [
        before.allocatable[0][column] + GIB,
        before.allocatable[1][column],
    ]


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        (names.TOPOLOGY_MANAGER_POLICY, "any", "none of none, best-effort, restricted, single-numa-node: 'any'"),
        (names.TOPOLOGY_MANAGER_MAX_NUMA_NODES, "-3", "not a count: '-3'"),
        (names.CPU_MANAGER_OPTIONS, "x", "not name=value: 'x'"),
        (names.RESERVED_CPUS, "x", "not a CPU range: 'x'"),
        (names.UNZONED_DEVICES, "x", "not name=value: 'x'"),
        (names.UNZONED_DEVICES, "r/n=1/1", "(r/n): not three quantities: '1/1'"),
        (names.SHARED_DEVICES, "r/d@0+1=5/5/5", "more than the 1 of zone 0 r/d"),
        (names.SHARED_DEVICES, "r/d@0+9=1/1/1", "not a resource and several zones: 'r/d@0+9'"),
        (names.SHARED_DEVICES, "r/d@0=1/1/1", "not a resource and several zones: 'r/d@0'"),
        (names.SHARED_DEVICES, "r/d@1=1/1/1", "not a resource and several zones: 'r/d@1'"),
        (names.SHARED_DEVICES, "r/d@x=1/1/1", "not zones: 'x'"),
        (names.SHARED_DEVICES, f"{'r' * 99}/d@x=1/1/1", f"({'r' * 80}): not zones: 'x'"),
        (names.ABSENT_ZONE_DEVICES, "r/d@0=1/1/1", "not a resource and absent zones: 'r/d@0'"),
        (names.ABSENT_ZONE_DEVICES, "r/d@x=1/1/1", "(r/d@x): not zones: 'x'"),
        (names.ABSENT_ZONE_DEVICES, "@-1=1/1/1", "not a resource and absent zones: '@-1'"),
        (names.EMPTY_ZONES, "x", "not a CPU range: 'x'"),
        (names.EMPTY_ZONES, "2000", "a zone above 1023: '2000'"),
        (names.MEMORY_ASSIGNED, "x", "not a CPU range: 'x'"),
        (names.MEMORY_ASSIGNED, "0-1,5", "no such zones: (5,)"),
        (names.MEMORY_ASSIGNED, "1-99", "no such zones: (2, 3, 4, 5, 6, 7, 8, 9)"),
    ],
)
def test_damaged_attributes_of_the_node(name: str, value: str, problem: str) -> None:
    """An unknown policy is read as the kubelet's default."""
    nrt = edited(("kind",), "")
    set_attribute(nrt, name, value)
    read = read_nrt(nrt, KindInterner())
    assert [each for each in read.problems if each.startswith(name) and each.endswith(problem)]
    assert read.state is not None
    assert read.state.kind.cpus.cpus == TWO.cpus.online.bits


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        (names.CPUS, "8-15", "CPUs of another zone: '8-15'"),
        (names.CORES, "0/1", "not the CPUs of the zone: '0/1'"),
        (names.CORES, "0-7*3", "not cores: '0-7*3'"),
        (names.FREE_CPUS, "x", "not a CPU range: 'x'"),
        (names.MEMORY_GROUP, "0,x", "not zones: '0,x'"),
        (names.MEMORY_GROUP, "0,5", "no such zones: (5,)"),
    ],
)
def test_damaged_attributes_of_a_zone(name: str, value: str, problem: str) -> None:
    """The other zone is read in full."""
    nrt = edited(("kind",), "")
    zone = nrt["zones"][1 if name == names.CPUS else 0]
    set_attribute(zone, name, value)
    if name == names.CPUS:
        nrt["zones"][0]["attributes"][0] = attribute(names.CPUS, "8-15")
    read = read_nrt(nrt, KindInterner())
    assert any(each.endswith(problem) and name in each for each in read.problems)
    assert read.state is not None
    assert read.state.free_cpus & 0xFF00 == 0xFF00


@pytest.mark.parametrize("text", ["x", "2000"])
def test_no_zone_is_assigned_by_a_damaged_list(text: str) -> None:
    nrt = edited(("kind",), "")
    set_attribute(nrt, names.MEMORY_ASSIGNED, text)
    state = read_nrt(nrt, KindInterner()).state
    assert state is not None
    assert state.memory_assigned == 0


def test_no_cpu_is_free_in_a_damaged_list() -> None:
    nrt = edited(("kind",), "")
    set_attribute(nrt, names.RESERVED_CPUS, "7")
    set_attribute(nrt["zones"][0], names.FREE_CPUS, "x")
    state = read_nrt(nrt, KindInterner()).state
    assert state is not None
    assert state.free_cpus == 0xFF00


@pytest.mark.parametrize(("zone", "text", "groups"), [(0, "1", (3, 2)), (1, "0", (1, 3)), (1, "1", (1, 2))])
def test_a_zone_is_in_its_own_group(zone: int, text: str, groups: tuple[int, int]) -> None:
    nrt = edited(("kind",), "")
    set_attribute(nrt["zones"][zone], names.MEMORY_GROUP, text)
    state = read_nrt(nrt, KindInterner()).state
    assert state is not None
    assert state.memory_groups == groups


def test_holdings_are_listed_by_zone_and_then_for_the_node() -> None:
    """Only of a report that has them; the texts are not read, and empty ones are left out."""
    nrt = edited(("kind",), "")
    nrt["attributes"] = [item for item in nrt["attributes"] if item["name"] != names.HOLDINGS]
    assert read_nrt(nrt, KindInterner()).holdings is None
    set_attribute(nrt["zones"][0], names.HOLDINGS, "")
    set_attribute(nrt["zones"][1], names.HOLDINGS, "of zone 1")
    set_attribute(nrt, names.HOLDINGS, "")
    assert read_nrt(nrt, KindInterner()).holdings == ((1, "of zone 1"),)
    set_attribute(nrt, names.HOLDINGS, "of the node")
    assert read_nrt(nrt, KindInterner()).holdings == ((1, "of zone 1"), (NODE, "of the node"))


def test_packages_that_are_not_reported_are_the_zones() -> None:
    nrt = edited(("kind",), "")
    nrt["zones"] = [zone for zone in nrt["zones"] if not zone["name"].startswith("package-")]
    state = read_nrt(nrt, KindInterner()).state
    assert state is not None
    assert state.kind.cpus.packages == ((0, 0xFF), (1, 0xFF00))


def test_a_damaged_package_is_left_out() -> None:
    """Each of its zones counts as a package, and the other package stays."""
    machine = processors(Processors(2, 2, 1, 1, 1), CacheSizes(0, 0, 0, 32 << 20), "model", GIB)
    nrt = published(machine, report_of(machine))
    packages = [zone for zone in nrt["zones"] if zone["name"].startswith("package-")]
    set_attribute(packages[0], names.CPUS, "x")
    state = read_nrt(nrt, KindInterner()).state
    assert state is not None
    assert state.kind.cpus.packages == ((1, 0b1100), (2, 0b01), (3, 0b10))


@pytest.mark.parametrize("zone", [0, 1])
@pytest.mark.parametrize("text", ["0,x", "0,5", "5"])
def test_a_damaged_memory_group_is_unknown(text: str, zone: int) -> None:
    """A verdict on pods with pinned memory says so, and none raises an error."""
    nrt = edited(("kind",), "")
    set_attribute(nrt["zones"][zone], names.MEMORY_GROUP, text)
    state = read_nrt(nrt, KindInterner()).state
    assert state is not None
    assert state.kind.unknown == ("zones that give memory as one",)
    assert state.memory_groups == (1, 2)


def test_devices_of_excluded_pods_are_allocatable_to_the_kubelet() -> None:
    """They count as healthy, and are not free."""
    nrt = published(TWO, report_of(TWO, devices=(ContainerDevices("r/d", ("a", "b", "c"), (1,)),)))
    assert names.EXCLUDED not in {item["name"] for item in nrt["attributes"]}
    set_attribute(nrt, names.EXCLUDED, "r/d@1=1")
    state = state_of(read_nrt(nrt, KindInterner()))
    assert (state.kind.devices, state.device_free) == ((DeviceClass("r/d", 2, 4, 4),), (3,))


@pytest.mark.parametrize(("count", "is_read"), [(128, True), (129, False), (500, False)])
def test_more_zones_than_any_kubelet_has(count: int, is_read: bool) -> None:
    """A report of too many zones is not read, whatever it has."""
    nrt = edited(("kind",), "")
    nrt["zones"] = [{"name": f"node-{number}", "type": "Node"} for number in range(count)]
    report = read_nrt(nrt, KindInterner())
    assert (report.state is not None) is is_read
    assert is_read or report.problems[0] == "zones: more than 128 NUMA nodes or 256 problems: none is read"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.text("n0-", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("name", "value", "type")), inner),
    max_leaves=6,
)


def keys_of(value: Any) -> list[Any]:
    """The keys of an object or the indices of a list; nothing for other values."""
    if isinstance(value, dict):
        return list(cast("Object", value))
    return list(range(len(cast("list[Any]", value)))) if isinstance(value, list) else []


@given(st.data())
def test_any_damage_is_read(data: st.DataObject) -> None:
    """Whatever value is at any key, there is a report."""
    nrt = copy.deepcopy(BASE)
    for _ in range(data.draw(st.integers(1, 3))):
        owner: Any = nrt
        key = data.draw(st.sampled_from(keys_of(owner)))
        while keys_of(owner[key]) and data.draw(st.booleans()):
            owner = owner[key]
            key = data.draw(st.sampled_from(keys_of(owner)))
        owner[key] = data.draw(JSON)
    assert isinstance(read_nrt(nrt, KindInterner()), NodeReport)


BASE = edited(("kind",), "")


@given(st.dictionaries(st.sampled_from(("metadata", "zones", "attributes", "topologyPolicies")), JSON))
def test_any_object_is_read(nrt: Object) -> None:
    assert isinstance(read_nrt(nrt, KindInterner()), NodeReport)
