"""How close endpoints are: classes, corrections for special hardware, NVLink, and invariants of all trees."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.pci_trees import BRIDGE, GPU, NETWORK, NVME, ONE_ZONE, SERIAL, TWO_ZONES, PciScan, PciTree, run, zone
from zonewise.machine.collector import NoData
from zonewise.machine.collectors.pci.links import COLLECTOR, MAX_ENDPOINTS
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.gpu import Gpu, NvLinkPeer
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.pci import PciFunction
from zonewise.machine.reader import Reader
from zonewise.machine.sysfs import pci_order

RANKS = {"SAME": 0, "PIX": 1, "PXB": 2, "PHB": 3, "NODE": 4, "SYS": 5}
SAME_ROOT = {"SAME", "PIX", "PXB", "PHB"}
NVIDIA, NIC_IDS, AMD, PLX = "10de:2330:10de:0001", "15b3:1021:15b3:0001", "1002:740f:1002:0001", "10b5:9797:10b5:9797"


def collect_endpoints(*ways: tuple[str, str, str], bridges: dict[str, str] | None = None) -> PciScan:
    """Collect endpoints given as (path, class, ids), with their bridges, whose ids may be given by address."""
    tree = PciTree()
    for way, pci_class, ids in ways:
        parts = way.split("/")
        for at in range(1, len(parts) - 1):
            if "." in parts[at]:
                tree.add("/".join(parts[: at + 1]), BRIDGE, (bridges or {}).get(parts[at], PLX))
        tree.add(way, pci_class, ids)
    return tree.collect(TWO_ZONES)


def between(a: str, b: str, ids: tuple[str, str] = (NVIDIA, NIC_IDS), bridges: dict[str, str] | None = None) -> str:
    """Return the relation of a GPU and a NIC on two paths."""
    discovered = collect_endpoints((a, GPU, ids[0]), (b, NETWORK, ids[1]), bridges=bridges)
    relation = discovered.relation(a.rpartition("/")[2], b.rpartition("/")[2])
    assert relation is not None
    return relation


PORT = "pci0000:10/0000:10:01.0"
SWITCH = f"{PORT}/0000:11:00.0"


@pytest.mark.parametrize(
    ("a", "b", "relation"),
    [
        (f"{PORT}/0000:11:00.0", f"{PORT}/0000:11:00.1", "SAME"),
        (f"{SWITCH}/0000:12:00.0/0000:13:00.0", f"{SWITCH}/0000:12:01.0/0000:14:00.0", "PIX"),
        (f"{PORT}/0000:11:00.0", f"{PORT}/0000:11:01.0", "PIX"),
        (f"{SWITCH}/0000:12:00.0/0000:13:00.0/0000:14:00.0/0000:15:00.0", f"{SWITCH}/0000:12:01.0/0000:16:00.0", "PXB"),
        (f"{PORT}/0000:11:00.0", "pci0000:10/0000:10:02.0/0000:12:00.0", "PHB"),
        ("pci0000:10/0000:10:00.0", "pci0000:10/0000:10:02.0", "PHB"),
        (f"{PORT}/0000:11:00.0", "pci0000:20/0000:20:02.0/0000:21:00.0", "NODE"),
    ],
)
def test_classes(a: str, b: str, relation: str) -> None:
    """They share one device, one switch, several switches, one host bridge, or one zone."""
    assert between(a, b) == relation
    assert between(b, a) == relation


def test_across_host_bridges_zones_decide() -> None:
    """The zones are equal, different, or unknown (None) if the zone of either is unknown."""
    tree = PciTree()
    near = tree.add("pci0000:10/0000:10:00.0", GPU, node=0)
    also = tree.add("pci0000:20/0000:20:00.0", GPU, node=0)
    far = tree.add("pci0000:80/0000:80:00.0", GPU, node=1, cpus="8-15")
    lost = tree.add("pci0000:90/0000:90:00.0", GPU, node=-1, cpus="0-15")
    lost_too = tree.add("pci0000:91/0000:91:00.0", GPU, node=-1, cpus="0-15")
    discovered = tree.collect(TWO_ZONES)
    assert discovered.relation(near, also) == "NODE"
    assert discovered.relation(near, far) == "SYS"
    assert {discovered.relation(backward, lost) for backward in (near, also, far, lost_too)} == {None}


def test_a_single_zone_relates_all_devices() -> None:
    """On a machine with a single zone, no relation is across zones, whatever the firmware omits."""
    tree = PciTree()
    a = tree.add("pci0000:10/0000:10:00.0", GPU, node=-1, cpus="")
    b = tree.add("pci0000:20/0000:20:00.0", GPU, node=-1, cpus="")
    assert tree.collect(ONE_ZONE).relation(a, b) == "NODE"


def test_coherent_gpus_are_placed_by_distance() -> None:
    """GPUs whose zone is their own memory are NODE to a NIC of the nearer processor and SYS to one of the other."""
    tree = PciTree()
    gpu = tree.add("pci0008:00/0008:00:00.0", GPU, node=2, cpus="")
    near = tree.add("pci0000:00/0000:00:00.0", NETWORK, node=0)
    far = tree.add("pci0010:00/0010:00:00.0", NETWORK, node=1, cpus="8-15")
    discovered = tree.collect((*TWO_ZONES, zone(2, "", {"0": 80, "1": 120, "2": 10})))
    assert (discovered.relation(gpu, near), discovered.relation(gpu, far)) == ("NODE", "SYS")


def test_which_functions_are_endpoints() -> None:
    """Network, GPU, accelerator, coprocessor, InfiniBand and NVMe are endpoints, not bridges, SATA, serial or DMA."""
    tree = PciTree()
    classes = [NETWORK, "020700", "028000", GPU, "038000", "120000", "0b4000", "0c0600", NVME]
    other_classes = [BRIDGE, "010601", "010400", SERIAL, "088000", "060000"]
    endpoints = {tree.add(f"pci0000:00/0000:00:{n:02x}.0", c) for n, c in enumerate(classes)}
    for number, pci_class in enumerate(other_classes):
        tree.add(f"pci0000:00/0000:00:{16 + number:02x}.0", pci_class)
    discovered = tree.collect(ONE_ZONE)
    assert {address for link in discovered.machine.links for address in (link.a, link.b)} == endpoints
    assert len(discovered.machine.links) == len(endpoints) * (len(endpoints) - 1) // 2


def test_known_accelerators_are_endpoints() -> None:
    """A Neuron device has the class of a system peripheral but is an endpoint; a DMA engine is not."""
    tree = PciTree()
    neuron = tree.add("pci0000:00/0000:00:1c.0", "088000", "1d0f:7164:1d0f:0001")
    nic = tree.add("pci0000:00/0000:00:05.0", NETWORK)
    tree.add("pci0000:00/0000:00:06.0", "088000", "8086:0b25:8086:0001")
    discovered = tree.collect(ONE_ZONE)
    assert [(link.a, link.b) for link in discovered.machine.links] == [(nic, neuron)]


# --- hardware with its own switch


def amd_path(port: str, bus: int) -> str:
    """Return the path of an AMD GPU below a port: both ports of the switch on its package, then the GPU."""
    return f"{port}/0000:{bus:02x}:00.0/0000:{bus + 1:02x}:00.0/0000:{bus + 2:02x}:00.0"


def test_amd_gpus_have_their_own_switch() -> None:
    """A GPU and a NIC below one switch are PIX, although the GPU's own switch makes its path longer."""
    gpu, nic = amd_path(f"{SWITCH}/0000:12:00.0", 0x13), f"{SWITCH}/0000:12:01.0/0000:20:00.0"
    own = {"0000:13:00.0": "1002:14a0:1002:14a0", "0000:14:00.0": "1002:14a1:1002:14a1"}
    assert between(gpu, nic, (AMD, NIC_IDS), own) == "PIX"
    assert between(gpu, nic, (AMD, NIC_IDS)) == "PXB"
    assert between(gpu, nic, (NVIDIA, NIC_IDS), own) == "PXB"


def test_functions_of_an_amd_gpu() -> None:
    """Inside the GPU's own switch, and across root ports, the correction changes nothing."""
    own = {f"0000:{bus:02x}:00.0": f"1002:{device}:1002:0001" for bus, device in ((0x13, "1478"), (0x14, "1479"))}
    way = amd_path(f"{SWITCH}/0000:12:00.0", 0x13)
    assert between(way, way[:-1] + "1", (AMD, AMD), own) == "SAME"
    assert between(way, "pci0000:10/0000:10:02.0/0000:20:00.0", (AMD, NIC_IDS), own) == "PHB"


def test_nics_with_an_embedded_switch() -> None:
    """A NIC behind its own 15b3 bridges is as near to a GPU at the same switch as a NIC without bridges."""
    nic = f"{SWITCH}/0000:12:01.0/0000:20:00.0/0000:21:00.0/0000:22:00.0"
    own = {"0000:20:00.0": "15b3:1979:15b3:1979", "0000:21:00.0": "15b3:1979:15b3:1979"}
    gpu = f"{SWITCH}/0000:12:00.0/0000:13:00.0"
    assert between(gpu, nic, bridges=own) == "PIX"
    assert between(gpu, nic) == "PXB"


def test_a_gpu_inside_the_switch_of_a_nic() -> None:
    """With ConnectX-8, the GPU is below the NIC's switch. They are PIX, although the bridges belong to the NIC."""
    switch = f"{PORT}/0000:11:00.0"
    own = {f"0000:{part}": "15b3:197b:15b3:197b" for part in ("11:00.0", "12:00.0", "12:01.0")}
    nic, gpu = f"{switch}/0000:12:00.0/0000:13:00.0", f"{switch}/0000:12:01.0/0000:14:00.0"
    assert between(gpu, nic, bridges=own) == "PIX"


@pytest.mark.parametrize(
    ("top", "inner", "relation"),
    [
        ("1000:c010:1000:a024", "1000:c010:1000:a024", "PIX"),
        ("1000:c030:1000:0001", "1000:c030:1000:1001", "PIX"),
        ("1000:c030:1000:1001", "1000:c030:1000:1001", "PXB"),
        ("1000:c030:1000:0001", "1000:c010:1000:a024", "PXB"),
        ("1000:c010:1000:0024", "1000:c010:1000:a024", "PXB"),
        ("1000:c010:15d9:a024", "1000:c010:15d9:a024", "PXB"),
        (PLX, PLX, "PXB"),
    ],
)
def test_broadcom_switches_in_base_mode(top: str, inner: str, relation: str) -> None:
    """Sub-switches below the ports of one switch form one level; their ids are those by which NCCL recognises them."""
    ways: list[str] = []
    bridges = {"0000:11:00.0": top}
    for number in range(2):
        bus = 0x20 + 0x10 * number
        bridges |= {f"0000:{bus:02x}:00.0": inner}
        ways.append(
            f"{SWITCH}/0000:12:{number:02x}.0/0000:{bus:02x}:00.0/0000:{bus + 1:02x}:00.0/0000:{bus + 2:02x}:00.0"
        )
    assert between(ways[0], ways[1], bridges=bridges) == relation


def test_two_levels_of_a_broadcom_switch_and_a_direct_port() -> None:
    """A device at a port of the top level and one below a sub-switch are at the same switch."""
    deep = f"{SWITCH}/0000:12:00.0/0000:20:00.0/0000:21:00.0/0000:22:00.0"
    bridges = {"0000:11:00.0": "1000:c010:1000:a024", "0000:20:00.0": "1000:c010:1000:a024"}
    assert between(deep, f"{SWITCH}/0000:12:01.0/0000:30:00.0", bridges=bridges) == "PIX"


# --- unusual roots


def test_below_vmd() -> None:
    """Disks below one VMD share a host bridge; for other devices, zones decide."""
    tree = PciTree()
    tree.add("pci0000:64/0000:64:00.5", "010400")
    inner = "pci0000:64/0000:64:00.5/pci10000:00"
    tree.add(f"{inner}/10000:00:02.0", BRIDGE)
    tree.add(f"{inner}/10000:00:03.0", BRIDGE)
    disks = [tree.add(f"{inner}/10000:00:{n:02x}.0/10000:{n:02x}:00.0", NVME, node=-1, cpus="0-15") for n in (2, 3)]
    tree.add("pci0000:64/0000:64:02.0", BRIDGE)
    gpu = tree.add("pci0000:64/0000:64:02.0/0000:65:00.0", GPU)
    discovered = tree.collect(TWO_ZONES)
    assert discovered.relation(disks[0], disks[1]) == "PHB"
    assert discovered.relation(disks[0], gpu) == "NODE"


def test_hyper_v_roots() -> None:
    """Each device of an Azure machine has its own root, somewhere below VMBUS."""
    tree = PciTree()
    vmbus = "LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00"
    a = tree.add(f"{vmbus}/47505500-0001/pci0001:00/0001:00:00.0", GPU, node=0)
    b = tree.add(f"{vmbus}/47505500-0101/pci0101:00/0101:00:00.0", NETWORK, node=0)
    c = tree.add(f"{vmbus}/47505500-0103/pci0103:00/0103:00:00.0", NETWORK, node=1, cpus="8-15")
    discovered = tree.collect(TWO_ZONES)
    assert (discovered.relation(a, b), discovered.relation(a, c)) == ("NODE", "SYS")


def test_a_socket_direct_adapter_has_two_paths() -> None:
    """Each of its functions is near to its own socket; by their paths, the two are far from each other."""
    tree = PciTree()
    ways = [tree.add(f"pci0000:{bus}0/0000:{bus}0:00.0", NETWORK, NIC_IDS, node=n, cpus=c)
            for n, (bus, c) in enumerate((("1", "0-7"), ("8", "8-15")))]  # fmt: skip
    gpu = tree.add("pci0000:20/0000:20:00.0", GPU, node=0)
    discovered = tree.collect(TWO_ZONES)
    assert [discovered.relation(gpu, way) for way in ways] == ["NODE", "SYS"]
    assert discovered.relation(*ways) == "SYS"


def test_an_endpoint_without_a_location() -> None:
    """Only its address relates a function with a broken link to others."""
    tree = PciTree()
    a = tree.add("pci0000:10/0000:10:00.0", GPU, node=0)
    b = tree.add("pci0000:10/0000:10:00.1", GPU, node=0)
    c = tree.add("pci0000:10/0000:10:01.0", GPU, node=0)
    machine = tree.collect(TWO_ZONES).machine
    broken = tuple(f._replace(root=None, zone=None) if f.address == b else f for f in machine.pci)
    discovered = run(MemoryFiles([]), machine._replace(pci=broken), (COLLECTOR,))
    assert (discovered.relation(a, b), discovered.relation(b, c)) == ("SAME", None)


# --- virtual functions


def sriov_tree(functions: int) -> tuple[PciTree, str, list[str]]:
    """Return a NIC with virtual functions, some on the next bus, and a GPU at the same switch."""
    tree = PciTree()
    tree.add(PORT, BRIDGE)
    physical = tree.add(f"{PORT}/0000:11:00.0", NETWORK)
    virtual: list[str] = []
    for number in range(1, functions + 1):
        address = f"0000:{0x11 + number // 256:02x}:{number // 8 % 32:02x}.{number % 8}"
        virtual.append(tree.add(f"{PORT}/{address}", NETWORK))
        tree.link(address, "physfn", f"../{physical}")
    return tree, physical, virtual


def test_virtual_functions_belong_to_the_same_device() -> None:
    """They are one device with their physical function and with each other, on any device number or bus."""
    tree, physical, virtual = sriov_tree(20)
    discovered = tree.collect(ONE_ZONE)
    assert {discovered.relation(a, b) for a, b in combinations([physical, *virtual], 2)} == {"SAME"}


def test_many_virtual_functions_give_few_pairs() -> None:
    """Above the limit, each is related only to its physical function; other endpoints are not affected."""
    tree, physical, virtual = sriov_tree(600)
    gpu = tree.add("pci0000:10/0000:10:02.0", GPU)
    discovered = tree.collect(ONE_ZONE)
    assert len(virtual) > MAX_ENDPOINTS
    assert len(discovered.machine.links) == len(virtual) + 1
    assert {discovered.relation(physical, address) for address in virtual[:50]} == {"SAME"}
    assert discovered.relation(physical, gpu) == "PHB"
    addresses = [(pci_order(link.a), pci_order(link.b)) for link in discovered.machine.links]
    assert addresses == sorted(addresses)


def test_virtual_functions_without_their_physical_function() -> None:
    """In a guest, a virtual function has no physical one and is paired like any other, up to any number."""
    tree = PciTree()
    for number in range(MAX_ENDPOINTS + 4):
        address = tree.add(f"pci{number:04x}:00/{number:04x}:00:00.0", NETWORK)
        tree.link(address, "physfn", "../ffff:00:00.0")
    discovered = tree.collect(ONE_ZONE)
    assert len(discovered.machine.links) == (MAX_ENDPOINTS + 4) * (MAX_ENDPOINTS + 3) // 2


# --- NVLink


def gpu(address: str | None, *peers: NvLinkPeer) -> Gpu:
    """Return a GPU with these NVLinks."""
    return Gpu(address, None, "nvidia", None, None, None, None, None, None, None, nvlinks=peers)


def nvlink_relation(a: Gpu, b: Gpu) -> str | None:
    """Return the relation of two GPUs on different host bridges of one zone."""
    tree = PciTree()
    for each in (a, b):
        assert each.address is not None
        tree.add(f"pci{each.address[:7]}/{each.address}", GPU, NVIDIA)
    return tree.collect(ONE_ZONE, (a, b)).relation(str(a.address), str(b.address))


A, B, SWITCHES = "0000:10:00.0", "0000:20:00.0", ("0000:f0:00.0", "0000:f1:00.0")


def switched(links: int, *switches: str | None) -> list[NvLinkPeer]:
    """Return this number of links to each of the switches."""
    return [NvLinkPeer(switch, "switch", links) for switch in switches]


@pytest.mark.parametrize(
    ("peers_a", "peers_b", "relation"),
    [
        ([NvLinkPeer(B, "gpu", 2)], [NvLinkPeer(A, "gpu", 2)], "NV2"),
        ([NvLinkPeer(B, "gpu", 2)], [], "NV2"),
        ([NvLinkPeer(B, "gpu", 2)], [NvLinkPeer("0000:77:00.0", "gpu", 1)], "NV2"),
        (switched(9, *SWITCHES), switched(9, *SWITCHES), "NV18"),
        (switched(9, *SWITCHES), [*switched(9, SWITCHES[0]), *switched(7, SWITCHES[1])], "NV16"),
        (switched(9, SWITCHES[0]), switched(9, SWITCHES[1]), "NODE"),
        (switched(18, None), switched(18, None), "NV18"),
        ([NvLinkPeer(B, "npu", 3)], [NvLinkPeer(A, "npu", 3)], "NODE"),
        ([NvLinkPeer(B, "gpu", 0)], [NvLinkPeer(A, "gpu", 0)], "NODE"),
        ([], [], "NODE"),
    ],
)
def test_nvlink(peers_a: list[NvLinkPeer], peers_b: list[NvLinkPeer], relation: str) -> None:
    """Direct links count even if only one end lists them, as do links to common switches, but not to a processor."""
    assert nvlink_relation(gpu(A, *peers_a), gpu(B, *peers_b)) == relation


def test_nvlink_relates_gpus_only() -> None:
    """A NIC beside two linked GPUs keeps its relation; a GPU without an address is skipped."""
    tree = PciTree()
    for address in (A, B):
        tree.add(f"pci{address[:7]}/{address}", GPU, NVIDIA)
    nic = tree.add("pci0000:20/0000:20:01.0", NETWORK)
    gpus = (gpu(A, NvLinkPeer(B, "gpu", 4)), gpu(B, NvLinkPeer(A, "gpu", 4)), gpu(None, NvLinkPeer(A, "gpu", 4)))
    discovered = tree.collect(ONE_ZONE, gpus)
    assert [discovered.relation(A, B), discovered.relation(A, nic), discovered.relation(B, nic)] == [
        "NV4",
        "NODE",
        "PHB",
    ]


# --- invariants of all trees


@st.composite
def switch_trees(draw: st.DrawFn) -> tuple[PciFunction, ...]:
    """Draw endpoints below switches as in hardware: each port has a device or a switch below it."""
    functions: list[PciFunction] = []
    bus = 0
    for root in range(draw(st.integers(1, 3))):
        zone_id = draw(st.sampled_from([0, 1, None]))
        for port in range(draw(st.integers(1, 2))):
            open_ports = [(f"0000:{root:02x}:{port:02x}.0",)]
            for _ in range(draw(st.integers(0, 3))):
                below = open_ports.pop(draw(st.integers(0, len(open_ports) - 1)))
                bus += 4
                switch = f"0001:{bus:02x}:00.0"
                downstream = [f"0001:{bus + 1:02x}:{n:02x}.0" for n in range(draw(st.integers(1, 3)))]
                open_ports += [(*below, switch, each) for each in downstream]
            for chain in open_ports:
                bus += 1
                addresses = [f"0002:{bus:02x}:00.{number}" for number in range(draw(st.integers(1, 2)))]
                functions += [endpoint(address, f"pci0000:{root:02x}", chain, zone_id) for address in addresses]
    return tuple(functions)


def endpoint(address: str, root: str, bridges: tuple[str, ...], zone_id: int | None) -> PciFunction:
    """Return an endpoint with the fields that earlier collectors set."""
    return PciFunction(
        address, "0200", "020000", "15b3", "1021", None, None, None, zone_id, None, None,
        bridges[-1] if bridges else None, root, None, None, None, None, bridges,
    )  # fmt: skip


@given(switch_trees())
def test_consistency(functions: tuple[PciFunction, ...]) -> None:
    """Every pair is listed once, in order; relations below one root match it; no detour is shorter than the path."""
    ordered = tuple(sorted(functions, key=lambda function: pci_order(function.address)))
    links = run(MemoryFiles([]), Machine(pci=ordered), (COLLECTOR,)).machine.links
    relations = {frozenset((link.a, link.b)): link.relation for link in links}
    assert len(relations) == len(links) == len(functions) * (len(functions) - 1) // 2
    assert all(pci_order(link.a) < pci_order(link.b) for link in links)
    by_address = {function.address: function for function in functions}
    for pair, relation in relations.items():
        a, b = (by_address[address] for address in pair)
        assert (relation in SAME_ROOT) == (a.root == b.root)
        assert (relation is None) == (a.root != b.root and None in (a.zone, b.zone))
    for trio in combinations(by_address, 3):
        ranks = sorted(RANKS.get(relations[frozenset(pair)] or "", 9) for pair in combinations(trio, 2))
        # a tree of switches is an ultrametric space: of three distances, the two largest are equal
        assert ranks[1] == ranks[2] or 9 in ranks


@given(switch_trees())
def test_the_order_of_functions_does_not_matter(functions: tuple[PciFunction, ...]) -> None:
    """The relation of two endpoints is the same in both directions."""
    forward = run(MemoryFiles([]), Machine(pci=functions), (COLLECTOR,))
    backward = run(MemoryFiles([]), Machine(pci=functions[::-1]), (COLLECTOR,))
    pairs = [(link.a, link.b) for link in forward.machine.links]
    assert [forward.relation(a, b) for a, b in pairs] == [backward.relation(b, a) for a, b in pairs]


# --- other cases


@pytest.mark.parametrize("functions", [(), (endpoint("0000:00:00.0", "pci0000:00", (), 0),)])
def test_fewer_than_two_endpoints(functions: tuple[PciFunction, ...]) -> None:
    """Without two endpoints there is no data."""
    with pytest.raises(NoData):
        COLLECTOR.collect(Reader(MemoryFiles([])), Machine(pci=functions))


def test_sources_name_the_rule() -> None:
    """The source of each pair has the meaning of its class."""
    discovered = collect_endpoints((f"{PORT}/0000:11:00.0", GPU, NVIDIA), (f"{PORT}/0000:11:00.1", NETWORK, NIC_IDS))
    assert discovered.sources["links.0"].value == "0000:11:00.0 0000:11:00.1"
    assert "one device" in discovered.sources["links.0"].rule


def test_two_hundred_endpoints() -> None:
    """Each of the 19,900 pairs has a relation."""
    functions = tuple(
        endpoint(
            f"0000:{root:02x}:{n:02x}.0",
            f"pci0000:{root:02x}",
            (f"0001:{root:02x}:00.0", f"0002:{root:02x}:{n:02x}.0"),
            0,
        )
        for root in range(25)
        for n in range(8)
    )
    machine = COLLECTOR.collect(Reader(MemoryFiles([])), Machine(pci=functions))
    assert len(machine.links) == 19900
