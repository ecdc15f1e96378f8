"""Which netdev belongs to which RDMA device, and RDMA facts of the whole machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.network import (
    LINK_LOCAL,
    NetworkScan,
    Tree,
    find,
    function_tree,
    gid_tree,
    lines,
    loopback,
    netdev,
    pci_function,
    place_of,
    port_tree,
    rdma_device,
    with_pci,
)
from zonewise.machine.discover import Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.host import Kernel
from zonewise.machine.model.network import Rdma

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine

FIRST, SECOND, VIRTUAL_FUNCTION = "0000:3b:00.0", "0000:3b:00.1", "0000:3b:00.2"
MODE = "sys/module/ib_core/parameters/netns_mode"


def roce(device: str, owner: str, names: tuple[str, ...] = ()) -> Tree:
    """Return an RDMA device with a RoCE port whose GID table names these netdevs."""
    directory = f"{owner}/infiniband/{device}/ports/1"
    entries = {index: (f"{LINK_LOCAL[:-1]}{index}", "RoCE v2", name) for index, name in enumerate(names)}
    port = port_tree(device, owner, 1, link_layer="Ethernet", **({"gids/0": None} if names else {}))
    return rdma_device(device, owner) | port | gid_tree(directory, entries)


def functions(*addresses: str) -> Machine:
    """Return a machine with these PCI functions."""
    return with_pci(*(pci_function(address) for address in addresses))


def pairs(discovered: NetworkScan) -> dict[str, tuple[str | None, int | None]]:
    """Return the RDMA device and port of each netdev."""
    return {name: (nic.rdma, nic.rdma_port) for name, nic in discovered.nics.items()}


# --- netdev and RDMA device


def test_ipoib_belongs_to_the_device_of_its_function() -> None:
    """InfiniBand tables name no netdev, so the PCI function decides."""
    owner = place_of(FIRST)
    tree = function_tree(FIRST) | netdev("ib0", owner, type=32) | rdma_device("mlx5_0", owner)
    discovered = find(tree | port_tree("mlx5_0", owner), functions(FIRST))
    assert pairs(discovered) == {"ib0": ("mlx5_0", 1)}
    assert discovered.rdma["mlx5_0"].netdevs == ("ib0",)
    assert discovered.scan.sources["nics.ib0.rdma"].value == "mlx5_0"
    assert discovered.problems == []


def test_two_ports_of_a_device() -> None:
    """With mlx4, two netdevs of one function are two ports of one RDMA device."""
    owner = place_of(FIRST)
    tree = function_tree(FIRST) | netdev("ib0", owner, type=32) | netdev("ib1", owner, type=32, dev_port=1)
    tree |= rdma_device("mlx4_0", owner) | port_tree("mlx4_0", owner) | port_tree("mlx4_0", owner, 2)
    discovered = find(tree, functions(FIRST))
    assert pairs(discovered) == {"ib0": ("mlx4_0", 1), "ib1": ("mlx4_0", 2)}
    assert discovered.rdma["mlx4_0"].netdevs == ("ib0", "ib1")


def test_a_single_port_device_needs_no_port_number() -> None:
    """The second function of a card may number its port 1, while its RDMA device has only port 1."""
    owner = place_of(SECOND)
    tree = function_tree(SECOND) | netdev("eth1", owner, dev_port=1) | roce("mlx5_1", owner)
    assert pairs(find(tree, functions(SECOND))) == {"eth1": ("mlx5_1", 1)}


def test_a_roce_table_names_the_netdev_and_the_devices_above_it() -> None:
    """The netdev and its VLAN, if named, belong to the device; an unnamed VLAN does not."""
    owner = place_of(FIRST)
    tree = function_tree(FIRST) | netdev("eth0", owner) | roce("mlx5_0", owner, ("eth0", "eth0.5"))
    for name in ("eth0.5", "eth0.6"):
        tree |= netdev(name, uevent="DEVTYPE=vlan")
        tree[f"sys/devices/virtual/net/{name}/lower_eth0"] = "../eth0"
    discovered = find(tree, functions(FIRST))
    assert pairs(discovered) == {"eth0": ("mlx5_0", 1), "eth0.5": ("mlx5_0", 1), "eth0.6": (None, None)}
    assert discovered.rdma["mlx5_0"].netdevs == ("eth0", "eth0.5")


def test_a_representor_has_no_rdma() -> None:
    """Of several netdevs of a function, the table names the one with RDMA; the others represent VFs on a switch."""
    owner = place_of(FIRST)
    tree = function_tree(FIRST) | roce("mlx5_0", owner, ("eth0",))
    tree |= netdev("eth0", owner) | netdev("eth0_0", owner) | netdev("eth0_1", owner)
    assert pairs(find(tree, functions(FIRST))) == {
        "eth0": ("mlx5_0", 1),
        "eth0_0": (None, None),
        "eth0_1": (None, None),
    }


def test_a_name_from_another_namespace_is_not_ours() -> None:
    """In shared mode, the table of a VF in a pod names the pod's eth0, not the host's on another function."""
    tree = function_tree(FIRST) | netdev("eth0", place_of(FIRST))
    tree |= function_tree(VIRTUAL_FUNCTION) | roce("mlx5_2", place_of(VIRTUAL_FUNCTION), ("eth0",))
    tree[f"{place_of(VIRTUAL_FUNCTION)}/net"] = None
    discovered = find(tree, functions(FIRST, VIRTUAL_FUNCTION))
    assert pairs(discovered) == {"eth0": (None, None), VIRTUAL_FUNCTION: ("mlx5_2", 1)}
    assert discovered.rdma["mlx5_2"].netdevs == ()
    assert discovered.nics[VIRTUAL_FUNCTION].presence == "other namespace"
    assert discovered.nics[VIRTUAL_FUNCTION].link_layer == "Ethernet"


def test_a_bond_of_roce_ports_is_a_single_device() -> None:
    """The bond's RDMA device is on the function of its first port and names the bond; the second port belongs to it."""
    tree = function_tree(FIRST) | function_tree(SECOND) | netdev("bond0", **{"bonding/slaves": "eth0 eth1"})
    for name, address in (("eth0", FIRST), ("eth1", SECOND)):
        tree |= netdev(name, place_of(address))
        tree[f"{place_of(address)}/net/{name}/master"] = "../bond0"
        tree[f"sys/devices/virtual/net/bond0/lower_{name}"] = f"../{name}"
    discovered = find(tree | roce("mlx5_bond_0", place_of(FIRST), ("bond0",)), functions(FIRST, SECOND))
    assert set(pairs(discovered).values()) == {("mlx5_bond_0", 1)}
    assert discovered.rdma["mlx5_bond_0"].netdevs == ("bond0", "eth0", "eth1")


def test_subfunctions_differ_by_directory() -> None:
    """A subfunction has its own RDMA device on the PCI function of its parent."""
    owner = place_of(FIRST)
    sub = f"{owner}/mlx5_core.sf.4"
    tree = function_tree(FIRST) | netdev("eth0", owner) | netdev("eth0s4", sub) | lines(sub, {"sfnum": 4})
    tree |= roce("mlx5_0", owner) | roce("mlx5_1", sub)
    assert pairs(find(tree, functions(FIRST))) == {"eth0": ("mlx5_0", 1), "eth0s4": ("mlx5_1", 1)}


def test_soft_roce_does_not_replace_hardware() -> None:
    """If a NIC has hardware RDMA, a soft RoCE device on it does not replace the hardware."""
    owner = place_of(FIRST)
    tree = function_tree(FIRST) | netdev("eth0", owner) | roce("mlx5_0", owner, ("eth0",))
    tree |= rdma_device("rxe0", parent="eth0") | port_tree("rxe0", link_layer="Ethernet")
    discovered = find(tree, functions(FIRST))
    assert pairs(discovered) == {"eth0": ("mlx5_0", 1)}
    assert discovered.rdma["rxe0"].netdevs == ()


def test_a_loop_of_devices_ends() -> None:
    """In a damaged tree, two devices may each claim to be above the other; each is followed once."""
    owner = place_of(FIRST)
    tree = function_tree(FIRST) | roce("mlx5_0", owner, ("a", "b")) | netdev("a") | netdev("b")
    tree |= {"sys/devices/virtual/net/a/lower_b": "../b", "sys/devices/virtual/net/b/lower_a": "../a"}
    assert set(pairs(find(tree, functions(FIRST))).values()) == {(None, None), ("mlx5_0", 1)}


@given(st.lists(st.integers(0, 7), unique=True, min_size=1), st.integers(1, 4))
def test_each_netdev_is_paired_within_its_function(numbers: list[int], ports: int) -> None:
    """For any functions and ports, every netdev is paired, but never across functions."""
    tree: Tree = {}
    addresses = [f"0000:3b:00.{number}" for number in numbers]
    for number, address in zip(numbers, addresses, strict=True):
        owner = place_of(address)
        tree |= function_tree(address) | rdma_device(f"mlx5_{number}", owner)
        for port in range(ports):
            tree |= netdev(f"ib{number}p{port}", owner, type=32, dev_port=port)
            tree |= port_tree(f"mlx5_{number}", owner, port + 1)
    expected = {f"ib{number}p{port}": (f"mlx5_{number}", port + 1) for number in numbers for port in range(ports)}
    assert pairs(find(tree, functions(*addresses))) == expected


# --- the whole machine


def machine_rdma(tree: Tree, release: str | None = None) -> tuple[Rdma, list[str]]:
    """Return the RDMA facts of a whole machine with an HCA."""
    owner = place_of(FIRST)
    hca = loopback() | function_tree(FIRST) | rdma_device("mlx5_0", owner) | port_tree("mlx5_0", owner)
    discovered = find(hca | tree, functions(FIRST)._replace(kernel=Kernel(release)))
    return discovered.machine.rdma, discovered.problems


@pytest.mark.parametrize(("content", "mode"), [(b"Y\n", "shared"), (b"N\n", "exclusive")])
def test_the_namespace_mode_is_a_parameter(content: bytes, mode: str) -> None:
    """The parameter of ib_core contains the mode."""
    assert machine_rdma({MODE: content})[0].namespace_mode == mode


def test_an_invalid_namespace_mode() -> None:
    """Any value other than Y and N is damage.

    Without the file, the mode is known only for kernels with a single mode.
    """
    rdma, problems = machine_rdma({MODE: b"maybe\n"}, "6.8.0")
    assert (rdma.namespace_mode, len(problems)) == (None, 1)
    assert machine_rdma({}, "6.8.0")[0].namespace_mode is None
    assert machine_rdma({}, "5.1.21")[0].namespace_mode == "shared"
    assert machine_rdma({})[0].namespace_mode is None


@pytest.mark.parametrize(
    ("tree", "module"),
    [
        ({"sys/module/nvidia_peermem/version": b"550.54.15\n"}, "nvidia_peermem"),
        ({"sys/module/nv_peer_mem/version": b"1.3\n"}, "nv_peer_mem"),
        ({"sys/kernel/mm/memory_peers/nv_mem/version": b"1.3\n"}, "nv_peer_mem"),
        ({f"sys/kernel/mm/memory_peers/{n}/version": b"5\n" for n in ("nv_mem", "nv_mem_nc")}, "nvidia_peermem"),
        ({"sys/kernel/mm/memory_peers/amdkfd/version": b"1\n"}, None),
        ({}, None),
    ],
)
def test_peer_memory(tree: Tree, module: str | None) -> None:
    """The module is loaded, or is registered as a client of peer memory."""
    assert machine_rdma(tree)[0].peer_memory == module


OPEN = {"proc/driver/nvidia/version": b"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release\n"}
CLOSED = {"proc/driver/nvidia/version": b"NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\n"}
AMD: Tree = {"sys/module/amdgpu": None}


@pytest.mark.parametrize(
    ("tree", "release", "expected"),
    [
        (OPEN, "6.8.0-45-generic", True),
        (OPEN, "5.12.0", True),
        (OPEN, "5.11.22", False),
        (OPEN, "4.18.0-553.el8_10.x86_64", None),
        (OPEN, None, None),
        (OPEN, "garbage", None),
        (CLOSED, "6.8.0", False),
        (CLOSED, None, False),
        (AMD, "6.8.0", True),
        ({}, "6.8.0", None),
    ],
)
def test_dma_buf(tree: Tree, release: str | None, expected: bool | None) -> None:
    """It needs kernel 5.12 and a GPU driver that exports; otherwise, it is unknown rather than false."""
    assert machine_rdma(tree, release)[0].dma_buf == expected


def test_a_machine_without_rdma_is_no_data() -> None:
    """A NIC without RDMA is listed, and RDMA itself is absent."""
    discovered = find(function_tree(FIRST) | netdev("eth0", place_of(FIRST)), functions(FIRST))
    assert discovered.machine.rdma == Rdma(None, None, None)
    assert discovered.scan.runs[-1].outcome == "no data"
    assert list(discovered.nics) == ["eth0"]


def test_an_unchanged_machine_is_the_same_object() -> None:
    """The netdevs that this collector completes do not cause the others to run again."""
    owner = place_of(FIRST)
    tree = function_tree(FIRST) | netdev("ib0", owner, type=32) | rdma_device("mlx5_0", owner)
    files = MemoryFiles((tree | port_tree("mlx5_0", owner) | {MODE: b"Y\n"}).items())
    scanner = Scanner(files)
    first = scanner.scan()
    second = scanner.scan()
    assert second.machine is first.machine
    assert {run.outcome for run in second.runs} == {"unchanged"}
