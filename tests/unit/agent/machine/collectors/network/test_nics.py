"""Netdevs: their kinds, the devices below them, and PCI functions without a visible netdev."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.damage import DAMAGES, DELETE, Damage, Damaged
from support.network import (
    Failing,
    Tree,
    find,
    function_tree,
    lines,
    loopback,
    netdev,
    network_collectors,
    pci_function,
    place_of,
    with_pci,
)
from zonewise.machine.discover import Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.host import Kernel
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.pci import Sriov
from zonewise.machine.model.zone import Zone
from zonewise_common.k8s.cpuset import EMPTY

FIRST, SECOND, VIRTUAL_FUNCTION = "0000:3b:00.0", "0000:3b:00.1", "0000:3b:00.2"


def nic_tree(**attributes: object) -> Tree:
    """Return a tree with one Ethernet NIC, eth0, on the first function."""
    return function_tree(FIRST) | netdev("eth0", place_of(FIRST), **attributes)


def known(**first: object) -> Machine:
    """Return a machine with the first PCI function."""
    return with_pci(pci_function(FIRST)._replace(**first))


def eth0_path(name: str) -> str:
    return f"sys/class/net/eth0/{name}"


# --- one NIC


def test_facts_of_a_nic() -> None:
    """Every fact of a plain NIC and of its PCI function is read, without a problem."""
    discovered = find(nic_tree(mtu=9000), known(sriov=Sriov(16, 2)))
    nic = discovered.nics["eth0"]
    assert (nic.address, nic.zone, nic.driver, nic.sriov) == (FIRST, 1, "mlx5_core", Sriov(16, 2))
    assert (nic.speed_mbps, nic.state, nic.mtu, nic.port) == (100000, "up", 9000, 0)
    assert (nic.mac, nic.link_layer) == ("94:6d:ae:00:00:01", "Ethernet")
    assert (nic.virtual, nic.kind, nic.master, nic.lower, nic.presence) == (False, None, None, (), "netdev")
    assert discovered.problems == []


def test_every_fact_of_a_nic_has_a_source() -> None:
    """A fact that is read names its file and the rule; the NIC's own source explains all other facts."""
    sources = find(nic_tree(), known()).scan.sources
    assert sources["nics.eth0.speed_mbps"].file == "/sys/class/net/eth0/speed"
    assert sources["nics.eth0.speed_mbps"].value == "100000"
    assert sources["nics.eth0.zone"].file == f"/sys/bus/pci/devices/{FIRST}"
    assert {"nics.eth0", "nics.eth0.mtu", "nics.eth0.mac", "nics.eth0.state", "nics.eth0.port"} <= set(sources)


def test_a_nic_whose_function_is_not_known_has_no_zone() -> None:
    """Without PCI facts, the address is known from the link, and the zone is unknown rather than 0."""
    nic = find(nic_tree()).nics["eth0"]
    assert (nic.address, nic.zone, nic.sriov) == (FIRST, None, None)


@pytest.mark.parametrize("speed", [-1, 0, 65535, 4294967295])
def test_notations_for_an_unknown_speed(speed: int) -> None:
    """SPEED_UNKNOWN, in each width that kernels print, and 0 mean an unknown speed, not damage."""
    discovered = find(nic_tree(speed=speed), known())
    assert (discovered.nics["eth0"].speed_mbps, discovered.nics["eth0"].printed_speed) == (None, speed)
    assert discovered.problems == []


def test_a_link_that_is_down_has_no_speed() -> None:
    """Reading the speed of a device that is down fails with EINVAL, which is a valid result."""
    discovered = find(nic_tree(operstate="down"), known(), {eth0_path("speed"): errno.EINVAL})
    nic = discovered.nics["eth0"]
    assert (nic.speed_mbps, nic.printed_speed, nic.state) == (None, None, "down")
    assert discovered.problems == []


def test_a_copy_has_an_empty_file_if_the_speed_could_not_be_read() -> None:
    """In a copied tree, speed and duplex are empty files if they could not be read; one empty file is damage."""
    copied: Tree = {f"{place_of(FIRST)}/net/eth0/{name}": b"" for name in ("speed", "duplex")}
    assert find(nic_tree() | copied, known()).problems == []
    damaged: Tree = {f"{place_of(FIRST)}/net/eth0/speed": b""}
    assert find(nic_tree() | damaged, known()).problems == ["/sys/class/net/eth0/speed: is empty"]


@pytest.mark.parametrize("content", [b"\n", b"(null)\n", b"fast\n", b"-7\n", b"9" * 40])
def test_an_invalid_speed_is_a_problem(content: bytes) -> None:
    """Text that no kernel prints is reported once and gives no number."""
    discovered = find(nic_tree() | {f"{place_of(FIRST)}/net/eth0/speed": content}, known())
    assert discovered.nics["eth0"].speed_mbps is None
    assert len(discovered.problems) == 1


@pytest.mark.parametrize("name", ["operstate", "mtu", "type", "address", "speed", "dev_port"])
def test_a_lost_attribute_is_reported(name: str) -> None:
    """Every kernel has these files for hardware, so an absent one was lost."""
    discovered = find(nic_tree(**{name: None}), known())
    assert discovered.problems == [f"/sys/class/net/eth0: lacks {name}"]


def test_several_lost_attributes_are_a_single_problem() -> None:
    """A directory that lost most of its files is reported once."""
    assert find(nic_tree(mtu=None, speed=None), known()).problems == ["/sys/class/net/eth0: lacks mtu, speed"]


@pytest.mark.parametrize(("name", "value"), [("mtu", -1), ("mtu", 1 << 40), ("type", 70000), ("dev_port", -1)])
def test_numbers_beyond_what_the_kernel_has_are_damage(name: str, value: int) -> None:
    """A number outside its range is reported and not used."""
    discovered = find(nic_tree(**{name: value}), known())
    nic = discovered.nics["eth0"]
    assert None in (nic.mtu, nic.link_layer, nic.port)
    assert len(discovered.problems) == 1


def test_a_virtio_nic_has_the_driver_of_virtio() -> None:
    """The PCI function's driver is virtio-pci; the netdev's driver is that of the virtio device below it."""
    owner = f"{place_of(FIRST)}/virtio2"
    tree = function_tree(FIRST, "virtio-pci") | netdev("eth0", owner)
    tree[f"{owner}/driver"] = "../../../../../bus/virtio/drivers/virtio_net"
    nic = find(tree, known(driver="virtio-pci")).nics["eth0"]
    assert (nic.address, nic.driver, nic.zone) == (FIRST, "virtio_net", 1)


def test_a_nic_of_another_bus_has_its_own_zone() -> None:
    """A Hyper-V device has no PCI function but its own zone; a zone that the machine lacks is ignored."""
    owner = "sys/devices/LNXSYSTM:00/VMBUS:00/f8b3781a-1e82-4818-a1c3-63d806ec15bb"
    tree = netdev("eth0", owner) | lines(owner, {"numa_node": 1})
    tree[f"{owner}/driver"] = "../../../../bus/vmbus/drivers/hv_netvsc"
    zones = tuple(Zone(number, EMPTY, EMPTY, None, {}, {}, "cpu") for number in range(2))
    nic = find(tree, Machine(zones=zones)).nics["eth0"]
    assert (nic.address, nic.zone, nic.driver, nic.virtual) == (None, 1, "hv_netvsc", False)
    assert find(tree, Machine(zones=zones[:1])).nics["eth0"].zone is None


def test_two_ports_of_a_function_differ_by_port_number() -> None:
    """Two netdevs of one PCI function are two of its ports, by dev_port."""
    tree = nic_tree() | netdev("eth1", place_of(FIRST), dev_port=1)
    discovered = find(tree, known())
    assert [(nic.name, nic.address, nic.port) for nic in discovered.machine.nics] == [
        ("eth0", FIRST, 0),
        ("eth1", FIRST, 1),
    ]


def test_old_kernels_have_the_port_in_dev_id() -> None:
    """Before kernel 3.15, the port was in dev_id, in hexadecimal; dev_port did not exist."""
    discovered = find(nic_tree(dev_port=None, dev_id="0x1"), known())
    assert discovered.nics["eth0"].port == 1
    assert discovered.problems == []


def test_old_ipoib_has_the_port_in_dev_id() -> None:
    """Before kernel 4.20, IPoIB left dev_port at 0 and had its port in dev_id."""
    ipoib = {"type": 32, "address": "80:00:00:48:fe:80" + ":00" * 14, "dev_id": "0x1"}
    nic = find(nic_tree(**ipoib), known()).nics["eth0"]
    assert (nic.port, nic.link_layer, nic.mac) == (1, "InfiniBand", ipoib["address"])
    assert find(nic_tree(dev_id="0x1"), known()).nics["eth0"].port == 0


def test_a_virtual_function_names_its_physical_one() -> None:
    """A VF's netdev has the VF's PCI function and names its physical function."""
    tree = nic_tree() | function_tree(VIRTUAL_FUNCTION) | netdev("eth0v0", place_of(VIRTUAL_FUNCTION))
    functions = pci_function(FIRST, sriov=Sriov(8, 1)), pci_function(VIRTUAL_FUNCTION, physical=FIRST)
    discovered = find(tree, with_pci(*functions))
    assert discovered.nics["eth0v0"].physical_function == FIRST
    assert discovered.nics["eth0v0"].sriov is None
    assert discovered.nics["eth0"].sriov == Sriov(8, 1)


def test_a_class_of_directories_on_old_kernels() -> None:
    """Before kernel 2.6.25, the class contained directories with a link to the device."""
    tree = function_tree(FIRST) | lines("sys/class/net/eth0", {"operstate": "up", "mtu": 1500, "type": 1})
    tree |= lines("sys/class/net/eth0", {"address": "94:6d:ae:00:00:01", "speed": 1000, "dev_id": "0x0"})
    tree["sys/class/net/eth0/device"] = "../../../" + place_of(FIRST).removeprefix("sys/")
    tree |= lines("sys/class/net/lo", {"operstate": "up", "mtu": 1500, "type": 772, "address": "00:00:00:00:00:00"})
    discovered = find(tree, known())
    assert (discovered.nics["eth0"].address, discovered.nics["eth0"].virtual, discovered.nics["eth0"].driver) == (
        FIRST,
        False,
        "mlx5_core",
    )
    assert (discovered.nics["lo"].virtual, discovered.nics["lo"].kind) == (True, "loopback")
    assert discovered.problems == []


# --- software devices


def test_a_bond_and_its_ports_name_each_other() -> None:
    """A bond over two NICs has its kind, speed and ports; the ports name it as their master."""
    tree = function_tree(FIRST) | function_tree(SECOND)
    bond = "sys/devices/virtual/net/bond0"
    for name, address in (("eth1", SECOND), ("eth0", FIRST)):
        tree |= netdev(name, place_of(address))
        tree[f"{place_of(address)}/net/{name}/master"] = "../../../../../virtual/net/bond0"
        tree[f"{bond}/lower_{name}"] = f"../../../pci0000:3a/0000:3a:01.0/{address}/net/{name}"
    tree |= netdev("bond0", speed=200000) | lines(bond, {"bonding/slaves": "eth1 eth0"})
    tree["sys/class/net/bonding_masters"] = b"bond0\n"
    discovered = find(tree, with_pci(pci_function(FIRST), pci_function(SECOND)))
    nic = discovered.nics["bond0"]
    assert (nic.kind, nic.virtual, nic.lower, nic.speed_mbps) == ("bond", True, ("eth0", "eth1"), 200000)
    assert (nic.address, nic.zone, nic.driver, nic.port) == (None, None, None, None)
    assert [discovered.nics[name].master for name in ("eth0", "eth1")] == ["bond0", "bond0"]
    assert set(discovered.nics) == {"bond0", "eth0", "eth1"}
    assert discovered.problems == []


def test_a_vlan_is_above_its_device() -> None:
    """DEVTYPE identifies a VLAN, and a link leads to the device below it."""
    tree = nic_tree() | netdev("eth0.100", uevent="DEVTYPE=vlan\nINTERFACE=eth0.100")
    tree["sys/devices/virtual/net/eth0.100/lower_eth0"] = f"../../../../{place_of(FIRST)}/net/eth0"
    nic = find(tree, known()).nics["eth0.100"]
    assert (nic.kind, nic.lower, nic.virtual) == ("vlan", ("eth0",), True)


def test_a_vlan_of_an_old_kernel_is_in_the_table_of_vlans() -> None:
    """Without DEVTYPE and the link, /proc/net/vlan/config names the VLAN and its device."""
    config = "VLAN Dev name\t | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\neth0.100      | 100  | eth0\n"
    tree = nic_tree() | netdev("eth0.100") | {"proc/net/vlan/config": config.encode()}
    discovered = find(tree, known())
    assert (discovered.nics["eth0.100"].kind, discovered.nics["eth0.100"].lower) == ("vlan", ("eth0",))
    assert discovered.problems == []


@pytest.mark.parametrize(("name", "value"), [("bridge/bridge_id", "8000.0"), ("uevent", "DEVTYPE=bridge")])
def test_a_bridge_and_its_ports(name: str, value: str) -> None:
    """A bridge has a directory or a DEVTYPE. On old kernels, brif lists its ports, which have brport."""
    tree = nic_tree() | netdev("br0") | lines("sys/devices/virtual/net/br0", {name: value})
    tree["sys/devices/virtual/net/br0/brif/eth0"] = "../../../../../class/net/eth0/brport"
    tree |= lines(f"{place_of(FIRST)}/net/eth0", {"brport/state": 3})
    tree[f"{place_of(FIRST)}/net/eth0/brport/bridge"] = "../../../../../../virtual/net/br0"
    discovered = find(tree, known())
    assert (discovered.nics["br0"].kind, discovered.nics["br0"].lower) == ("bridge", ("eth0",))
    assert discovered.nics["eth0"].master == "br0"


def test_an_end_of_a_pair_is_a_veth() -> None:
    """A veth does not name its driver: it is linked to another device, and no device is below it."""
    tree = netdev("cali0", ifindex=7, iflink=3) | netdev("ifb0", ifindex=8, iflink=8)
    tree |= netdev("gretap0", ifindex=9, iflink=0) | netdev("macvlan0", ifindex=10, iflink=2)
    tree["sys/devices/virtual/net/macvlan0/lower_eth0"] = "../eth0"
    discovered = find(tree)
    assert [discovered.nics[name].kind for name in ("cali0", "ifb0", "gretap0", "macvlan0")] == [
        "veth",
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(("flags", "kind"), [("0x1001", "tun"), ("0x1002", "tap")])
def test_tun_and_tap(flags: str, kind: str) -> None:
    """A tun device has a file with its flags. One that carries IP has no hardware address, which is not a problem."""
    discovered = find(netdev("tun0", tun_flags=flags, type=65534, address=""))
    assert (discovered.nics["tun0"].kind, discovered.nics["tun0"].mac, discovered.nics["tun0"].link_layer) == (
        kind,
        None,
        None,
    )
    assert discovered.problems == []


def test_the_loopback_device_has_no_speed() -> None:
    """The device lo is virtual and has neither a link layer nor a speed."""
    discovered = find(loopback())
    nic = discovered.nics["lo"]
    assert (nic.kind, nic.virtual, nic.link_layer, nic.speed_mbps) == ("loopback", True, None, None)
    assert discovered.problems == []


# --- functions without a netdev


def test_a_function_without_a_driver_is_hardware() -> None:
    """A NIC without a driver is listed by its address, which cannot be the name of a netdev."""
    discovered = find(function_tree(FIRST), with_pci(pci_function(FIRST, driver=None)))
    nic = discovered.nics[FIRST]
    assert (nic.address, nic.zone, nic.driver, nic.presence) == (FIRST, 1, None, "no driver")
    assert (nic.state, nic.speed_mbps, nic.mac, nic.mtu) == (None, None, None, None)
    assert discovered.problems == []


@pytest.mark.parametrize("driver", ["vfio-pci", "mlx5_vfio_pci", "uio_pci_generic", "pci-stub", "xen-pciback"])
def test_a_function_that_is_passed_through(driver: str) -> None:
    """Drivers that pass a function to a virtual machine or a program create no netdev for it."""
    function = pci_function(VIRTUAL_FUNCTION, driver=driver, physical=FIRST)
    nic = find(nic_tree(), with_pci(pci_function(FIRST), function)).nics[VIRTUAL_FUNCTION]
    assert (nic.presence, nic.driver, nic.physical_function) == ("user space", driver, FIRST)


def test_a_netdev_in_another_namespace() -> None:
    """The directory of a function's netdevs remains, empty, after they move to a pod."""
    tree = nic_tree() | function_tree(SECOND) | {f"{place_of(SECOND)}/net": None}
    discovered = find(tree, with_pci(pci_function(FIRST), pci_function(SECOND)))
    assert discovered.nics[SECOND].presence == "other namespace"
    assert [nic.name for nic in discovered.machine.nics] == ["eth0", SECOND]
    assert discovered.problems == []


def test_a_virtio_netdev_in_another_namespace() -> None:
    """For a virtio function, the directory is one level deeper."""
    tree = function_tree(FIRST, "virtio-pci") | {f"{place_of(FIRST)}/virtio2/net": None} | loopback()
    assert find(tree, known(driver="virtio-pci")).nics[FIRST].presence == "other namespace"


def test_a_driver_that_creates_no_netdev() -> None:
    """An InfiniBand function without IPoIB has no netdev."""
    discovered = find(function_tree(FIRST), with_pci(pci_function(FIRST, pci_class="0207")))
    assert discovered.nics[FIRST].presence == "no netdev"
    assert discovered.problems == []


def test_functions_of_other_classes_are_not_nics() -> None:
    """Only network functions, and old HCAs of class 0c06, are listed without a netdev."""
    functions = (pci_function(f"0000:3b:0{n}.0", pci_class=c) for n, c in enumerate(("0108", "0302", "0c06", "0c03")))
    assert set(find(nic_tree(), with_pci(*functions)).nics) == {"eth0", "0000:3b:02.0"}


def test_a_netdev_listed_by_its_function_only() -> None:
    """A missing or dangling class entry is reported, and the netdev is found through its PCI function."""
    for broken in ({}, {"sys/class/net/eth0": "../../devices/nowhere"}):
        tree = {path: content for path, content in nic_tree().items() if not path.startswith("sys/class")}
        tree |= loopback() | broken
        discovered = find(tree, known())
        assert (discovered.nics["eth0"].speed_mbps, discovered.nics["eth0"].address) == (100000, FIRST)
        assert discovered.problems == ["/sys/class/net/eth0: leads to no device, although one of that name exists"]


def test_a_lost_class_is_reported() -> None:
    """Every kernel lists a netdev; those of the functions are still found."""
    tree = {path: content for path, content in nic_tree().items() if not path.startswith("sys/class")}
    discovered = find(tree, known())
    assert discovered.nics["eth0"].state == "up"
    assert discovered.problems[0] == "/sys/class/net: lists nothing, not even the loopback device"


def test_a_lost_virtual_device_is_listed() -> None:
    """Virtual devices are also found in the tree of devices."""
    tree = netdev("bond0", **{"bonding/slaves": ""}) | nic_tree()
    del tree["sys/class/net/bond0"]
    discovered = find(tree, known())
    assert (discovered.nics["bond0"].kind, discovered.nics["bond0"].virtual) == ("bond", True)
    assert len(discovered.problems) == 1


def test_dangling_entries_are_a_single_problem() -> None:
    """A copy without virtual devices still has their names; one problem lists them."""
    tree = nic_tree()
    tree |= {f"sys/class/net/{name}": f"../../devices/virtual/net/{name}" for name in ("br0", "lo", "veth1")}
    discovered = find(tree, known())
    assert discovered.nics["br0"].virtual
    assert discovered.nics["br0"].state is None
    assert discovered.problems == ["/sys/class/net: 3 entries are broken links: br0, lo, veth1"]


def test_no_network_at_all_is_no_data() -> None:
    """A capture without any network gives no data and no problem."""
    discovered = find({"sys/devices/system/cpu/online": b"0\n"})
    assert (discovered.machine.nics, discovered.problems) == ((), [])
    assert [run.outcome for run in discovered.scan.runs] == ["collected", "no data", "no data", "no data"]


# --- rescans and damage


def changed(name: str, content: bytes) -> tuple[bool, bool]:
    """Return whether a rescan runs the collector again: without a change, and after a change of one attribute."""
    files = MemoryFiles(nic_tree().items())
    damages: dict[str, Damage] = {}
    scanner = Scanner(Damaged(files, damages), collectors=network_collectors(known()))
    scanner.scan()
    before = scanner.scan().runs[1].outcome
    damages[eth0_path(name)] = Damage("content", 0, content)
    return before == "collected", scanner.scan().runs[1].outcome == "collected"


@pytest.mark.parametrize(
    ("name", "content"), [("operstate", b"down\n"), ("speed", b"50000\n"), ("mtu", b"9000\n"), ("mtu", b"")]
)
def test_a_rescan_notices_a_link(name: str, content: bytes) -> None:
    """A link that goes down or changes its speed or MTU is noticed at the next scan; an unchanged one is not read."""
    assert changed(name, content) == (False, True)


def test_a_rescan_notices_a_removed_device() -> None:
    """A netdev that was moved is absent from the next scan, and its function is in another namespace."""
    tree = nic_tree() | loopback() | {f"{place_of(FIRST)}/net": None}
    damages: dict[str, Damage] = {}
    scanner = Scanner(Damaged(MemoryFiles(tree.items()), damages), collectors=network_collectors(known()))
    assert [nic.name for nic in scanner.scan().machine.nics] == ["eth0", "lo"]
    damages |= {path: Damage(DELETE) for path in ("sys/class/net/eth0", f"sys/bus/pci/devices/{FIRST}/net/eth0")}
    machine = scanner.scan().machine
    assert [(nic.name, nic.presence) for nic in machine.nics] == [("lo", "netdev"), (FIRST, "other namespace")]


PATHS = [
    *(eth0_path(name) for name in ("operstate", "mtu", "type", "address", "speed", "dev_port", "uevent", "")),
    "sys/class/net",
    "sys/class/net/eth0",
    "sys/class/net/bond0/bonding/slaves",
    f"sys/bus/pci/devices/{FIRST}/net",
    "proc/net/vlan/config",
]


@given(st.dictionaries(st.sampled_from(PATHS), DAMAGES, max_size=4))
def test_no_damage_stops_or_invents(damages: dict[str, Damage]) -> None:
    """Whatever happened to the files: no exception, no netdev is invented, and numbers are within bounds."""
    tree = nic_tree() | netdev("bond0", **{"bonding/slaves": "eth0"})
    scanner = Scanner(
        Damaged(MemoryFiles(tree.items()), damages),
        collectors=network_collectors(known()._replace(kernel=Kernel("6.8.0"))),
    )
    scan = scanner.scan()
    assert [run.detail for run in scan.runs if run.outcome == "failed"] == []
    assert {nic.name for nic in scan.machine.nics} <= {"eth0", "bond0", FIRST}
    for nic in scan.machine.nics:
        assert nic.speed_mbps is None or 0 < nic.speed_mbps < 1 << 32
        assert nic.mtu is None or 0 <= nic.mtu < 1 << 32


@given(st.integers(-1, (1 << 32) - 1))
def test_a_speed_is_the_number_or_unknown(speed: int) -> None:
    """Every speed that a kernel can print is returned unchanged, except those that mean "unknown"."""
    expected = None if speed in (-1, 0, 0xFFFF, 0xFFFFFFFF) else speed
    assert find(nic_tree(speed=speed), known()).nics["eth0"].speed_mbps == expected


def test_an_unreadable_link_costs_the_address_only_without_another_source() -> None:
    """If a link cannot be read, the function's own directory still shows its netdev."""

    class Unlinked(Failing):
        def link(self, path: str) -> str:
            if path == "sys/class/net/eth0":
                raise OSError(errno.EACCES, "Permission denied", path)
            return super().link(path)

    files = Unlinked(MemoryFiles(nic_tree().items()), {})
    machine = Scanner(files, collectors=network_collectors(known())).scan().machine
    assert [(nic.name, nic.address) for nic in machine.nics] == [("eth0", FIRST)]
    assert any("Permission denied" in problem.problem for problem in machine.problems)
