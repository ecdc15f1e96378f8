"""The zone nearest to a function: each rule, their order, and cases that remain unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.pci_trees import BRIDGE, GPU, NETWORK, ONE_ZONE, SERIAL, TWO_ZONES, PciTree, run, zone
from zonewise.machine.collector import NoData
from zonewise.machine.collectors.pci.locality import COLLECTOR, nearest_cpu_zone
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.pci import PciFunction
from zonewise.machine.reader import Reader

if TYPE_CHECKING:
    from zonewise.machine.model.zone import Zone

NIC = "0000:3b:00.0"

GRACE = (
    zone(0, "0-7", {"0": 10, "1": 40, "2": 80, "18": 120}),
    zone(1, "8-15", {"0": 40, "1": 10, "2": 120, "18": 80}),
    zone(2, "", {"0": 80, "1": 120, "2": 10, "18": 160}, device="0008:01:00.0"),
    zone(18, "", {"0": 120, "1": 80, "2": 160, "18": 10}, device="0018:01:00.0"),
)
"""Two processors, each with a GPU whose memory is a zone without CPUs."""


def nic_tree(*, node: int | None = -1, cpus: str | None = "0-15", bridge_node: int | None = -1) -> PciTree:
    """Return a NIC behind one root port, with only the facts in the arguments."""
    tree = PciTree()
    tree.add("pci0000:3a/0000:3a:00.0", BRIDGE, node=bridge_node, cpus=cpus if cpus in (None, "") else "0-15")
    tree.add(f"pci0000:3a/0000:3a:00.0/{NIC}", NETWORK, node=node, cpus=cpus)
    return tree


@pytest.mark.parametrize(
    ("tree", "zones", "placed"),
    [
        (nic_tree(node=1, cpus="8-15"), TWO_ZONES, (1, "numa_node")),
        (nic_tree(cpus="8-15"), TWO_ZONES, (1, "local_cpus")),
        (nic_tree(cpus="9-10"), TWO_ZONES, (1, "local_cpus")),
        (nic_tree(cpus="8-15,64-127"), TWO_ZONES, (1, "local_cpus")),
        (nic_tree(bridge_node=1), TWO_ZONES, (1, "parent")),
        (nic_tree(node=7, bridge_node=1), TWO_ZONES, (1, "parent")),
        (nic_tree(cpus=None), ONE_ZONE, (0, "single")),
        (nic_tree(cpus=""), ONE_ZONE, (0, "single")),
        (nic_tree(), ONE_ZONE, (0, "local_cpus")),
        (nic_tree(cpus=""), (*ONE_ZONE, zone(1, "")), (0, "single")),
        (nic_tree(), TWO_ZONES, (None, None)),
        (nic_tree(cpus="7-8"), TWO_ZONES, (None, None)),
        (nic_tree(cpus="64-127"), TWO_ZONES, (None, None)),
        (nic_tree(node=7), TWO_ZONES, (None, None)),
        (nic_tree(node=0), (), (None, None)),
    ],
)
def test_rules(tree: PciTree, zones: tuple[Zone, ...], placed: tuple[int | None, str | None]) -> None:
    """Each rule applies if no earlier one does; local CPUs of two zones decide nothing."""
    nic = tree.collect(zones).function(NIC)
    assert (nic.zone, nic.zone_source) == placed


def test_the_firmware_takes_precedence() -> None:
    """numa_node decides even if the local CPUs differ; the difference is reported."""
    discovered = nic_tree(node=0, cpus="8-15").collect(TWO_ZONES)
    assert (discovered.function(NIC).zone, discovered.function(NIC).zone_source) == (0, "numa_node")
    assert [problem.used for problem in discovered.problems] == ["numa_node"]


def test_local_cpus_without_a_zone_are_reported() -> None:
    """The kernel derives them from the zone. On a machine with several zones, one without the other is reported."""
    discovered = nic_tree(node=-1, cpus="8-15").collect(TWO_ZONES)
    assert [problem.used for problem in discovered.problems] == ["local CPUs"]
    discovered = nic_tree(node=-1, cpus="", bridge_node=1).collect(TWO_ZONES)
    assert (discovered.function(NIC).zone, [problem.used for problem in discovered.problems]) == (1, ["bridges"])
    assert nic_tree(node=-1, cpus="0-15").collect(ONE_ZONE).problems == []


def test_a_zone_that_does_not_exist_is_never_invented() -> None:
    """A number from a damaged file does not make a zone; there is one problem per number, not per function."""
    tree = PciTree()
    for number in range(12):
        tree.add(f"pci0000:00/0000:00:{number:02x}.0", SERIAL, node=4294967295 if number % 2 else 77, cpus="0-15")
    discovered = tree.collect(TWO_ZONES)
    assert {function.zone for function in discovered.machine.pci} == {None}
    assert sorted(problem.problem.split(",")[0] for problem in discovered.problems) == [
        "6 function(s)",
        "6 function(s)",
    ]


# --- zones without CPUs


@pytest.mark.parametrize(("domain", "node", "nearest"), [("0008", 2, 0), ("0018", 18, 1)])
def test_memory_of_a_coherent_gpu(domain: str, node: int, nearest: int) -> None:
    """A GPU that names its own memory as its zone is near to the processor at the smallest distance."""
    tree = PciTree()
    bridge = tree.add(f"pci{domain}:00/{domain}:00:00.0", BRIDGE, node=node, cpus="")
    gpu = tree.add(f"pci{domain}:00/{domain}:00:00.0/{domain}:01:00.0", GPU, node=node, cpus="")
    discovered = tree.collect(GRACE)
    function = discovered.function(gpu)
    assert (function.zone, function.zone_source, function.memory_zone) == (nearest, "distance", node)
    assert discovered.function(bridge).memory_zone is None
    # a zone without CPUs has no local CPUs, so those of the nearest zone are used
    assert function.cpus == next(each.cpus for each in GRACE if each.id == nearest)
    assert discovered.problems == []


def test_a_zone_without_cpus_that_is_not_a_gpus_memory() -> None:
    """If all CPUs of a zone are offline, its memory is the host's, and a GPU in it has none there."""
    tree = PciTree()
    gpu = tree.add("pci0000:80/0000:80:00.0", GPU, node=2, cpus="")
    function = tree.collect((*TWO_ZONES, zone(2, "", {"0": 21, "1": 10, "2": 10}))).function(gpu)
    assert (function.zone, function.memory_zone) == (1, None)


@pytest.mark.parametrize("cpus", ["0-15", "7-8", "8-15"])
def test_local_cpus_outside_the_zone(cpus: str) -> None:
    """The kernel derives them from the zone, so other CPUs are a contradiction, which is reported."""
    tree = PciTree()
    gpu = tree.add("pci0000:10/0000:10:00.0", GPU, node=0, cpus=cpus)
    discovered = tree.collect(TWO_ZONES)
    assert (discovered.function(gpu).zone, discovered.function(gpu).zone_source) == (0, "numa_node")
    assert [problem.problem for problem in discovered.problems] == [
        f"1 function(s), {gpu}: zone 0 in numa_node, but local CPUs of other zones"
    ]


def test_memory_of_a_gpu_from_its_driver() -> None:
    """On POWER9, the zone names the GPU, while the function has no numa_node."""
    tree = PciTree()
    gpu = tree.add("pci0004:05/0004:05:00.0", GPU, node=None, cpus="0-7")
    function = tree.collect((*TWO_ZONES, zone(255, "", device=gpu))).function(gpu)
    assert (function.zone, function.zone_source, function.memory_zone) == (0, "local_cpus", 255)


@pytest.mark.parametrize(
    ("distances", "nearest"),
    [
        ({"0": 20, "1": 20}, None),
        ({"0": 20, "1": 21}, 0),
        ({"1": 40}, 1),
        ({}, None),
        ({"2": 10}, None),
    ],
)
def test_nearest_zone(distances: dict[str, int], nearest: int | None) -> None:
    """The smallest distance decides; equal ones, or none to a zone with CPUs, decide nothing."""
    memory = zone(2, "", distances)
    assert nearest_cpu_zone((*TWO_ZONES, memory), memory) == nearest


def test_a_tie_falls_through_to_the_next_rule() -> None:
    """If distances decide nothing, local CPUs may."""
    discovered = nic_tree(node=2, cpus="8-15").collect((*TWO_ZONES, zone(2, "", {"0": 20, "1": 20})))
    assert (discovered.function(NIC).zone, discovered.function(NIC).zone_source) == (1, "local_cpus")


# --- relatives


def test_a_virtual_function_has_the_zone_of_its_physical_function() -> None:
    """The physical function precedes any bridge, since a virtual function may be on another bus."""
    tree = nic_tree(node=1, cpus="8-15")
    virtual = tree.add("pci0000:3a/0000:3c:00.1", NETWORK, node=-1, cpus="0-15")
    tree.link(virtual, "physfn", f"../0000:3a:00.0/{NIC}")
    discovered = tree.collect(TWO_ZONES).function(virtual)
    assert (discovered.zone, discovered.zone_source, discovered.physical_function) == (1, "physfn", NIC)


def test_physical_functions_in_a_circle() -> None:
    """Two functions that each claim to be the other's physical function cause neither an error nor an endless loop."""
    tree = nic_tree()
    remote = tree.add("pci0000:3a/0000:3c:00.1", NETWORK, node=-1, cpus="0-15")
    tree.link(remote, "physfn", f"../0000:3a:00.0/{NIC}")
    tree.link(NIC, "physfn", f"../../{remote}")
    discovered = tree.collect(TWO_ZONES)
    assert {discovered.function(address).zone for address in (NIC, remote)} == {None}


def test_the_nearest_bridge_with_a_zone_decides() -> None:
    """Upwards, the first bridge with a zone decides."""
    tree = PciTree()
    tree.add("pci0000:3a/0000:3a:00.0", BRIDGE, node=0)
    tree.add("pci0000:3a/0000:3a:00.0/0000:3b:00.0", BRIDGE, node=1, cpus="8-15")
    tree.add("pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:00.0", BRIDGE, node=-1, cpus="0-15")
    way = "pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:00.0/0000:3d:00.0"
    nic = tree.add(way, NETWORK, node=-1, cpus="0-15")
    assert tree.collect(TWO_ZONES).function(nic).zone == 1


def test_behind_vmd_the_outer_function_decides() -> None:
    """The inner host bridge has no zone; the function that contains it has one, or a bridge above that function."""
    for outer_node, port_node in ((1, -1), (-1, 1)):
        tree = PciTree()
        port = "pci0000:64/0000:64:00.0"
        tree.add(port, BRIDGE, node=port_node, cpus="0-15")
        tree.add(f"{port}/0000:65:00.5", "010400", node=outer_node, cpus="0-15")
        disk = tree.add(f"{port}/0000:65:00.5/pci10000:00/10000:01:00.0", "010802", node=-1, cpus="0-15")
        function = tree.collect(TWO_ZONES).function(disk)
        assert (function.zone, function.zone_source) == (1, "parent")


# --- what is reported


def test_a_flat_virtual_machine() -> None:
    """Endpoints without a zone are one problem; a serial port is not reported."""
    tree = PciTree()
    devices = [tree.add(f"pci0000:00/0000:00:{n:02x}.0", GPU, node=-1, cpus="0-15") for n in range(1, 9)]
    tree.add("pci0000:00/0000:00:1f.0", SERIAL, node=-1, cpus="0-15")
    discovered = tree.collect(TWO_ZONES)
    assert {discovered.function(address).zone for address in devices} == {None}
    assert len(discovered.problems) == 1
    assert discovered.problems[0].problem.startswith("8 function(s)")
    assert {link.relation for link in discovered.machine.links} == {"PHB"}


def test_sources_name_the_rule() -> None:
    """Every zone names the file and the rule that gave it."""
    tree = nic_tree(node=-1, bridge_node=1)
    source = tree.collect(TWO_ZONES).sources[f"pci.{NIC}.zone"]
    assert source.file.endswith("/0000:3a:00.0/numa_node")
    assert "0000:3a:00.0" in source.rule


def test_no_data_without_functions() -> None:
    """Without PCI functions, there is no data."""
    with pytest.raises(NoData):
        COLLECTOR.collect(Reader(MemoryFiles([])), Machine(zones=TWO_ZONES))


def bare(address: str) -> PciFunction:
    """Return a function without any known fact."""
    nothing = dict.fromkeys(PciFunction._fields)
    return PciFunction(**{**nothing, "address": address, "bridges": ()})  # pyright: ignore[reportArgumentType]


@given(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 5)), st.sets(st.integers(0, 20), max_size=6)), max_size=8),
    st.lists(st.sets(st.integers(0, 15)), max_size=4),
)
def test_a_zone_always_has_cpus(evidence: list[tuple[int | None, set[int]]], zone_cpus: list[set[int]]) -> None:
    """Whatever functions contain, their zone exists and has CPUs, and its source is named."""
    from zonewise_common.k8s.cpuset import CpuSet

    owned: set[int] = set()
    zones: list[Zone] = []
    for number, cpus in enumerate(zone_cpus):
        zones.append(zone(number, str(CpuSet(cpus - owned)), {str(remote): 10 + remote for remote in range(4)}))
        owned |= cpus
    functions = tuple(
        bare(f"0000:00:{number:02x}.0")._replace(numa_node=node, cpus=CpuSet(cpus))
        for number, (node, cpus) in enumerate(evidence)
    )
    discovered = run(MemoryFiles([]), Machine(pci=functions, zones=tuple(zones)), (COLLECTOR,))
    with_cpus = {each.id for each in zones if each.cpus}
    for function in discovered.machine.pci:
        assert function.zone is None or function.zone in with_cpus
        assert (function.zone is None) == (function.zone_source is None)
    if len(with_cpus) == 1:
        assert all(function.zone is not None for function in discovered.machine.pci)
