"""Objects of zonewise's own agent: everything in them is read into a state."""

from __future__ import annotations

import pytest

from support.agent_objects import TWO, published, read, report_of, set_attribute, state_of, two_zones
from support.kubelet_reports import CONFIG, GIB, make_allocatable
from support.machine_parts import with_distances
from support.machines import grace_blackwell, tiered_memory
from support.state_file_nodes import config_policies
from zonewise.kubelet.types import (
    Allocatable,
    ContainerDevices,
    ContainerResources,
    KubeletConfig,
    KubeletReport,
    MemoryBlock,
    PodResources,
)
from zonewise.objects.nrt import machine_to_nrt
from zonewise.usage.node_usage import node_usage
from zonewise.usage.types import Usage
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt import names
from zonewise_common.nrt.holdings import NODE
from zonewise_scheduler.admission.node import Policies, idle_node
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import NodeReport, PodsFingerprint, read_nrt


def test_only_other_agents_poll() -> None:
    """Our agent publishes after each change. The agent of an unreadable object is unknown."""
    assert not read_nrt(published(TWO, report_of(TWO)), KindInterner()).is_polled
    assert read_nrt({"zones": [{"name": "node-0", "type": "Node"}]}, KindInterner()).is_polled
    assert not NodeReport("n", None, (), ()).is_polled


def test_no_memory_manager() -> None:
    """It allocates nothing, so the state has no memory."""
    config = CONFIG._replace(memory_manager_policy="None")
    allocatable = Allocatable(TWO.cpus.online - CpuSet((0,)))
    state = read(TWO, KubeletReport((), allocatable, config))
    assert (state.kind.memory_types, state.kind.allocatable, state.memory_free, state.memory_groups) == ((), (), (), ())


def test_no_cpu_manager() -> None:
    """Without the static policy, no CPUs can be allocated. The running kubelet counts, not its configuration file."""
    nrt = published(TWO, KubeletReport((), Allocatable(), KubeletConfig()))
    for configured in ("none", "static"):
        set_attribute(nrt, names.CPU_MANAGER_POLICY, configured)
        state = state_of(read_nrt(nrt, KindInterner()))
        assert (state.free_cpus, state.kind.policies.cpu) == (0, "none")


@pytest.mark.parametrize("cpu", ["static", "none"])
@pytest.mark.parametrize("memory", ["Static", "None"])
def test_a_node_without_pods_is_idle(cpu: str, memory: str) -> None:
    """The state is that of an idle node for any combination of managers."""
    config = CONFIG._replace(cpu_manager_policy=cpu, memory_manager_policy=memory)
    devices = (ContainerDevices("r/d", ("a", "b"), (0, 1)), ContainerDevices("r/d", ("c",), ()))
    allocatable = make_allocatable(TWO, devices)
    reported = allocatable if memory == "Static" else allocatable._replace(memory=())
    state = read(TWO, KubeletReport((), reported, config))
    assert state == idle_node(state.kind)


def test_zones_without_cpus_or_memory() -> None:
    """The Topology Manager's masks have a bit for every NUMA node, including those reserved for memory added later."""
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
    """Every option that affects verdicts is reported, together with the kubelet's release."""
    nrt = published(TWO, report_of(TWO)._replace(config=config))
    state = state_of(read_nrt(nrt, KindInterner(), release=(1, 33), policies=Policies(topology="none", cpu="none")))
    assert state.kind.policies == config_policies(config, (1, 33))
    assert state.kind.policies.pod_level_managers == (("PodLevelResourceManagers", True) in config.feature_gates)


def test_fingerprints_and_metadata() -> None:
    """Both fingerprints, the version and the name of the node are read."""
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


def test_an_object_written_without_a_kubelet() -> None:
    """`zonewise show` writes the resources of an idle machine; nothing is predicted from them."""
    read = read_nrt(machine_to_nrt(TWO, "n"), KindInterner())
    assert read.state is None
    assert read.problems == ("zonewise.dev/usage: 'unknown': no kubelet was queried",)


def test_empty_zones_count_as_zones() -> None:
    """The zones of the attribute are added, without the numbers between them."""
    nrt = two_zones()
    set_attribute(nrt, names.EMPTY_ZONES, "3,6-7")
    read = read_nrt(nrt, KindInterner())
    assert read.state is not None
    assert read.state.kind.zones == (0, 1, 3, 6, 7)


def test_holdings_are_listed_by_zone_and_then_for_the_node() -> None:
    """A report without holdings has None. The texts are not parsed, and empty ones are left out."""
    nrt = two_zones()
    nrt["attributes"] = [item for item in nrt["attributes"] if item["name"] != names.HOLDINGS]
    assert read_nrt(nrt, KindInterner()).holdings is None
    set_attribute(nrt["zones"][0], names.HOLDINGS, "")
    set_attribute(nrt["zones"][1], names.HOLDINGS, "of zone 1")
    set_attribute(nrt, names.HOLDINGS, "")
    assert read_nrt(nrt, KindInterner()).holdings == ((1, "of zone 1"),)
    set_attribute(nrt, names.HOLDINGS, "of the node")
    assert read_nrt(nrt, KindInterner()).holdings == ((1, "of zone 1"), (NODE, "of the node"))
